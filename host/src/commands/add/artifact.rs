//! Which layer of a manifest is the component (OCI image specification 1.1; for components, CNCF's "Wasm OCI Artifact layout").

use oci_spec::image::{Descriptor, DigestAlgorithm, ImageManifest};
use serde_json::Value;

use crate::{
    base::{ByteSize, Digest},
    commands::exit::Failure,
};

/// What may be a manifest; indexes too, so that it can be said that one is there.
pub(super) const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// The media type of a component.
const WASM: &str = "application/wasm";

/// Characters of what a registry says that a message repeats: more than any true name needs.
const REPEATED: usize = 120;

/// The one layer that is a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) digest: Digest,
    pub(super) size: ByteSize,
}

/// What a registry says, for a message: it may be megabytes.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(REPEATED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn wrong(text: impl Into<String>) -> Failure {
    Failure::refused("registry_artifact", text)
}

/// Finds the component in a manifest. What its configuration says is not asked: `wkg` writes one of Wasm's, `oras` an empty one.
///
/// # Errors
/// It is no manifest, or not of one component.
pub(super) fn layer(manifest: &[u8]) -> Result<Layer, Failure> {
    let json: Value =
        serde_json::from_slice(manifest).map_err(|e| wrong(format!("the manifest is no JSON: {e}")))?;
    if let Some(all) = json.get("manifests").and_then(Value::as_array) {
        let some: Vec<_> = all.iter().filter_map(|one| one["digest"].as_str()).take(8).map(short).collect();
        return Err(wrong(format!(
            "it is an index, and no manifest of one component: name one of its manifests by digest ({})",
            some.join(", ")
        )));
    }
    let manifest: ImageManifest = serde_json::from_value(json)
        .map_err(|e| wrong(format!("it is no manifest of an artefact: {}", short(&e.to_string()))))?;
    if manifest.schema_version() != 2 {
        return Err(wrong(format!("a manifest of version {} is not known", manifest.schema_version())));
    }
    match manifest.layers().as_slice() {
        [one] if one.media_type().as_ref() == WASM => component(one),
        [] => Err(wrong("the artefact has no layer: it is no component")),
        [one] => Err(wrong(format!(
            "its layer is {}, and a component is {WASM}",
            short(one.media_type().as_ref())
        ))),
        all => {
            let types: Vec<_> = all.iter().take(8).map(|one| short(one.media_type().as_ref())).collect();
            Err(wrong(format!(
                "the artefact has {} layers ({}): publish each component by itself, as one layer of {WASM}",
                all.len(),
                types.join(", ")
            )))
        }
    }
}

fn component(one: &Descriptor) -> Result<Layer, Failure> {
    if *one.digest().algorithm() != DigestAlgorithm::Sha256 {
        return Err(wrong(format!(
            "its layer has a digest by {}, and not by sha256",
            short(one.digest().algorithm().as_ref())
        )));
    }
    let digest = one.digest().digest().parse().map_err(|e: String| wrong(short(&e)))?;
    Ok(Layer { digest, size: ByteSize(one.size()) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn of(layers: Value) -> Result<Layer, String> {
        let config = json!({"mediaType": "application/vnd.wasm.config.v0+json",
            "digest": format!("sha256:{}", Digest::of(b"{}")), "size": 2});
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
        layer(manifest.to_string().as_bytes()).map_err(|e| e.to_string())
    }

    #[test]
    fn one_layer_is_the_component() {
        let digest = Digest::of(b"component");
        let wasm = json!({"mediaType": "application/wasm", "digest": format!("sha256:{digest}"), "size": 9});
        assert_eq!(of(json!([wasm])).unwrap(), Layer { digest, size: ByteSize(9) });
        let tar = json!({"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": format!("sha256:{digest}"), "size": 9});
        let sha512 =
            json!({"mediaType": "application/wasm", "digest": format!("sha512:{digest}{digest}"), "size": 9});
        for (layers, why) in [
            (json!([]), "no layer"),
            (json!([tar]), "image.layer.v1.tar"),
            (json!([wasm, wasm]), "2 layers"),
            (json!([sha512]), "not by sha256"),
            (json!([{"mediaType": "application/wasm", "digest": "sha256:12", "size": 1}]), "no manifest"),
            (json!(7), "no manifest"),
        ] {
            let said = of(layers.clone()).unwrap_err();
            assert!(said.contains(why), "{layers}: {said}");
        }
    }

    #[test]
    fn what_a_registry_says_is_repeated_in_part() {
        let (long, digest) = ("ü".repeat(1 << 20), format!("sha256:{}", Digest::of(b"x")));
        let one = |kind: &str, digest: &str| json!({"mediaType": kind, "digest": digest, "size": 1});
        let config = json!({"schemaVersion": long});
        for said in [
            of(json!([one(&long, &digest)])).unwrap_err(),
            of(json!(vec![one(&long, &digest); 9])).unwrap_err(),
            of(json!([one(WASM, &format!("sha512:{}", "a".repeat(1 << 20)))])).unwrap_err(),
            of(json!([one(WASM, &format!("{}:00", "a".repeat(1 << 20)))])).unwrap_err(),
            layer(json!({"manifests": vec![json!({"digest": long}); 9]}).to_string().as_bytes())
                .unwrap_err()
                .to_string(),
            layer(config.to_string().as_bytes()).unwrap_err().to_string(),
        ] {
            assert!(said.len() < 4096, "{} bytes: {}", said.len(), short(&said));
        }
    }

    #[test]
    fn what_is_no_manifest_is_said_to_be_none() {
        let said = |text: &str| layer(text.as_bytes()).unwrap_err().to_string();
        assert!(said("<html>").contains("no JSON"));
        assert!(said("{}").contains("no manifest"));
        let digest = format!("sha256:{}", Digest::of(b"x"));
        let index = said(&json!({"schemaVersion": 2, "manifests": [{"digest": digest}]}).to_string());
        assert!(index.contains("index") && index.contains(&digest), "{index}");
        assert!(said(r#"{"schemaVersion": 1, "fsLayers": []}"#).contains("no manifest"));
    }
}
