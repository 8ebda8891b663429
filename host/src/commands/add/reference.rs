//! What is to be added: a file, or a component in a registry.

use std::path::PathBuf;

use oci_spec::distribution::Reference;
use url::{Host, Url};

use crate::{
    base::Digest,
    commands::exit::Failure,
    plugins::{PLUGIN_NAME, is_plugin_name},
};

/// What the reference of a registry begins with.
const SCHEME: &str = "oci://";

/// Where the component is.
#[derive(Clone, Debug)]
pub(super) enum Source {
    File(PathBuf),
    Registry(Named),
}

/// `oci://REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST]`.
#[derive(Clone, Debug)]
pub(super) struct Named {
    reference: Reference,
    /// Of the manifest.
    pub(super) digest: Option<Digest>,
}

/// By what a registry is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speak {
    /// Plain HTTP with a registry on this machine's loopback, HTTPS with every other.
    ByAddress,
    /// Plain HTTP, because the operator says so.
    Plain,
    /// HTTPS, also on loopback.
    Https,
}

impl Source {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        match text.strip_prefix(SCHEME) {
            Some(rest) => Ok(Self::Registry(Named::parse(rest)?)),
            None if text.contains("://") => {
                Err(wrong(format!("{text:?} is neither a file nor a reference that begins with {SCHEME}")))
            }
            None => Ok(Self::File(text.into())),
        }
    }

    /// The name that a plugin has where none is given: the file's, or the last part of the repository's.
    fn own_name(&self) -> String {
        match self {
            Self::File(path) => {
                path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
            }
            Self::Registry(named) => named.repository().rsplit('/').next().unwrap_or_default().to_owned(),
        }
    }

    /// The plugin's name.
    pub(super) fn name(&self, given: Option<&str>) -> Result<String, Failure> {
        let name = given.map_or_else(|| self.own_name(), str::to_owned);
        if is_plugin_name(&name) {
            return Ok(name);
        }
        let advice = if given.is_some() { "give another with --name" } else { "give one with --name" };
        Err(Failure::usage(
            "name_invalid",
            format!("{name:?} is no name of a plugin ({PLUGIN_NAME}): {advice}"),
        ))
    }
}

fn wrong(text: String) -> Failure {
    Failure::usage("registry_reference", format!("{text}: write {SCHEME}REGISTRY/REPOSITORY@sha256:DIGEST"))
}

impl Named {
    fn parse(text: &str) -> Result<Self, Failure> {
        let shown = || format!("{SCHEME}{text}");
        let reference: Reference =
            text.parse().map_err(|e| wrong(format!("{:?} is no reference ({e})", shown())))?;
        // Without a registry it would be Docker's, which nobody has named.
        let first = text.split('/').next().unwrap_or_default();
        if first != reference.registry() || !text.contains('/') {
            return Err(wrong(format!("{:?} names no registry", shown())));
        }
        let digest = match reference.digest() {
            None => None,
            Some(text) if !text.starts_with("sha256:") => {
                return Err(wrong(format!("{text:?} is no digest by SHA-256")));
            }
            Some(text) => Some(text.parse().map_err(wrong)?),
        };
        Ok(Self { reference, digest })
    }

    pub(super) fn repository(&self) -> &str {
        self.reference.repository()
    }

    /// The registry's name, as credentials are kept under it.
    pub(super) fn registry(&self) -> &str {
        self.reference.resolve_registry()
    }

    /// What the manifest is asked for by: the digest goes over the tag.
    pub(super) fn wanted(&self) -> String {
        match (self.digest, self.reference.tag()) {
            (Some(digest), _) => format!("sha256:{digest}"),
            (None, tag) => tag.unwrap_or("latest").to_owned(),
        }
    }

    /// The reference with a digest.
    pub(super) fn with(&self, digest: Digest) -> String {
        let tag = self.reference.tag().map(|tag| format!(":{tag}")).unwrap_or_default();
        format!("{SCHEME}{}/{}{tag}@sha256:{digest}", self.reference.registry(), self.repository())
    }

    /// Where the repository is.
    pub(super) fn base(&self, speak: Speak) -> Result<Url, Failure> {
        let url = |scheme: &str| {
            Url::parse(&format!("{scheme}://{}/v2/{}/", self.registry(), self.repository()))
                .map_err(|e| wrong(format!("{} is no address ({e})", self.registry())))
        };
        let https = url("https")?;
        match speak {
            Speak::Plain => url("http"),
            Speak::ByAddress if is_loopback(&https) => url("http"),
            Speak::ByAddress | Speak::Https => Ok(https),
        }
    }
}

/// Whether nothing leaves this machine on the way to `url`.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HASH: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn named(text: &str) -> Result<Named, String> {
        match Source::parse(text).map_err(|e| e.to_string())? {
            Source::Registry(named) => Ok(named),
            Source::File(path) => Err(format!("a file: {}", path.display())),
        }
    }

    #[test]
    fn a_reference_names_its_registry() {
        let full = named(&format!("oci://registry.example.com/some/team/greet:1.2@sha256:{HASH}")).unwrap();
        assert_eq!((full.registry(), full.repository()), ("registry.example.com", "some/team/greet"));
        assert_eq!(full.wanted(), format!("sha256:{HASH}"), "the digest goes over the tag");
        assert_eq!(full.with(Digest::of(b"")), {
            let other = Digest::of(b"");
            format!("oci://registry.example.com/some/team/greet:1.2@sha256:{other}")
        });
        assert_eq!(Source::Registry(full).name(None).unwrap(), "greet");
        assert_eq!(named("oci://127.0.0.1:5000/a/b").unwrap().wanted(), "latest");
        let upper = named(&format!("oci://localhost/x@sha256:{}", HASH.to_uppercase())).unwrap();
        assert_eq!(upper.wanted(), format!("sha256:{HASH}"));
        for (text, why) in [
            ("oci://greet", "names no registry"),
            ("oci://some/greet", "names no registry"),
            ("oci://", "no reference"),
            ("oci://registry.example.com/Upper", "no reference"),
            ("oci://user:secret@registry.example.com/x", "no reference"),
            ("oci://registry.example.com/../x", "no reference"),
            ("oci://registry.example.com/x@sha256:12", "no reference"),
            ("oci://registry.example.com/x?y", "no reference"),
            ("https://registry.example.com/x", "neither a file"),
        ] {
            assert!(named(text).unwrap_err().contains(why), "{text}: {:?}", named(text));
        }
        let other = named(&format!("oci://registry.example.com/x@sha512:{HASH}{HASH}")).unwrap_err();
        assert!(other.contains("SHA-256"), "{other}");
        assert!(named("./greet.wasm").unwrap_err().starts_with("a file"));
    }

    #[test]
    fn plain_http_stays_on_this_machine() {
        let scheme = |text: &str, speak| named(text).unwrap().base(speak).unwrap().scheme().to_owned();
        for here in ["oci://127.0.0.1:5000/x", "oci://localhost/x", "oci://127.8.9.1/x"] {
            assert_eq!(scheme(here, Speak::ByAddress), "http", "{here}");
            assert_eq!(scheme(here, Speak::Https), "https", "{here}");
        }
        for other in [
            "oci://registry.example.com/x",
            "oci://10.0.0.1/x",
            "oci://localhost.example.com/x",
            "oci://127.0.0.1.nip.io/x",
        ] {
            assert_eq!(scheme(other, Speak::ByAddress), "https", "{other}");
            assert_eq!(scheme(other, Speak::Plain), "http", "{other}");
        }
    }

    #[test]
    fn a_name_is_one_of_a_plugin() {
        let file = |text: &str| Source::parse(text).unwrap();
        assert_eq!(file("build/greet.wasm").name(None).unwrap(), "greet");
        assert_eq!(file("build/greet.wasm").name(Some("hello")).unwrap(), "hello");
        for bad in ["", ".hidden", "a b", "../a", "a/b"] {
            let failure = file("x.wasm").name(Some(bad)).unwrap_err();
            assert_eq!(failure.code, "name_invalid", "{bad}");
        }
        assert_eq!(file("build/a b.wasm").name(None).unwrap_err().code, "name_invalid");
    }
}
