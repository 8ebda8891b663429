//! `layby plugins add`: components from files, and by digest from a real registry.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{Router, body::Body, extract::Request, response::Response};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures::stream;
use layby_tests::{
    Authority, Setup, chameleon,
    command::{Done, layby, run},
    eventually, guests,
    issuer::free_port,
    registry::{self, PASSWORD, Registry, USER, WASM},
    text,
};
use serde_json::{Value, json};

/// `layby plugins add` with the setup's folder of plugins, and nothing of this machine's user.
fn adding(setup: &Setup, args: &[&str]) -> tokio::process::Command {
    let all = ["plugins", "add", "--plugins", "plugins", "--json"].iter().chain(args);
    let mut command = layby(setup.root(), all);
    command.env("HOME", setup.root()).env_remove("DOCKER_CONFIG");
    command
}

async fn add(setup: &Setup, args: &[&str]) -> Done {
    run(adding(setup, args)).await
}

/// The exit code and the error's code.
fn failed(done: &Done) -> (Option<i32>, String) {
    let code = done.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
    (done.code, code)
}

#[track_caller]
fn refused(done: &Done, exit: i32, code: &str) -> String {
    assert_eq!(failed(done), (Some(exit), code.to_owned()), "{done:?}");
    done.json()["error"]["message"].as_str().unwrap().to_owned()
}

/// What is in the folder of plugins.
fn files(setup: &Setup) -> Vec<String> {
    let all = fs::read_dir(setup.plugins()).unwrap();
    let mut names: Vec<String> = all.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_component_is_added_by_digest_and_a_running_host_serves_it() {
    let registry = Registry::open().await;
    let component = guests::component("echo");
    let digest = registry.publish("team/echo", "1.0", &[(WASM, &component)]).await;
    let host = Setup::new().start().await;
    let setup = host.setup();

    let reference = format!("oci://{}/team/echo@{digest}", registry.name());
    let done = add(setup, &[&reference]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let said = done.json();
    let own = registry::digest(&component);
    assert_eq!(
        (&said["status"], &said["name"], &said["from"], &said["policy"]),
        (
            &json!("added"),
            &json!("echo"),
            &json!(reference),
            &json!({ "file": "plugins/echo.toml", "there": false, "pin": "none" })
        )
    );
    assert_eq!(said["digest"], own.trim_start_matches("sha256:"));
    assert_eq!(files(setup), ["echo.wasm"], "nothing else is left");
    let client = host.client();
    let answer = eventually("the tool is served", || async {
        let reply = client.call("echo", json!({ "text": "from afar" })).await;
        reply.message.get("result").cloned()
    })
    .await;
    assert_eq!(text(&answer), "from afar");

    // The line that it tells is the one that pins it.
    let line = format!("sha256 = \"{}\"", own.trim_start_matches("sha256:"));
    let mut again = layby(setup.root(), ["plugins", "add", "--plugins", "plugins", &reference]);
    again.env("HOME", setup.root());
    let again = run(again).await;
    assert!(again.out.contains(&line) && again.out.contains("there already"), "{again:?}");
    host.put("echo", &component, &format!("{line}\n"));
    let done = add(setup, &[&reference]).await.json();
    assert_eq!((&done["status"], &done["policy"]["pin"]), (&json!("unchanged"), &json!("this")));
}

#[tokio::test]
async fn a_tag_alone_is_refused_with_what_to_write() {
    let registry = Registry::open().await;
    let digest = registry.publish("echo", "v2", &[(WASM, &chameleon::version("2", "pet"))]).await;
    let setup = Setup::new();
    let by_tag = format!("oci://{}/echo:v2", registry.name());
    let done = add(&setup, &[&by_tag]).await;
    let message = refused(&done, 4, "registry_no_digest");
    let exact = format!("{by_tag}@{digest}");
    assert!(message.contains(&exact), "{message}");
    assert_eq!(done.json()["error"]["reference"], exact);
    assert!(files(&setup).is_empty());
    assert_eq!(add(&setup, &[&exact, "--name", "pet"]).await.code, Some(0));
    assert_eq!(files(&setup), ["pet.wasm"]);
    // No tag is the tag `latest`, which is not there.
    let done = add(&setup, &[&format!("oci://{}/echo", registry.name())]).await;
    refused(&done, 4, "registry_unknown");
    for wrong in ["oci://echo", "oci://127.0.0.1/a@sha256:12", "https://127.0.0.1/a"] {
        refused(&add(&setup, &[wrong]).await, 2, "registry_reference");
    }
    refused(&add(&setup, &[&exact, "--name", "../pet"]).await, 2, "name_invalid");
}

#[tokio::test]
async fn bytes_that_are_not_of_the_digest_are_refused() {
    let registry = Registry::open().await;
    let setup = Setup::new();
    let component = chameleon::version("1", "pet");
    let digest = registry.publish("pet", "1", &[(WASM, &component)]).await;
    let at = |digest: &str| format!("oci://{}/pet@{digest}", registry.name());
    // A digest that nothing has.
    let none = registry::digest(b"nothing");
    refused(&add(&setup, &[&at(&none)]).await, 4, "registry_unknown");
    // The component was changed where the registry keeps it, then the manifest.
    let layer = registry.stored(&registry::digest(&component));
    let mut other = component.clone();
    *other.last_mut().unwrap() ^= 1;
    fs::write(&layer, &other).unwrap();
    let message = refused(&add(&setup, &[&at(&digest)]).await, 4, "registry_digest");
    assert!(message.contains("the component") && message.contains(&registry::digest(&other)), "{message}");
    other.extend_from_slice(b"more");
    fs::write(&layer, &other).unwrap();
    refused(&add(&setup, &[&at(&digest)]).await, 4, "registry_digest");
    fs::write(&layer, &component).unwrap();
    let manifest = fs::read_to_string(registry.stored(&digest)).unwrap();
    fs::write(registry.stored(&digest), format!("{manifest} ")).unwrap();
    let message = refused(&add(&setup, &[&at(&digest)]).await, 4, "registry_digest");
    assert!(message.contains("the manifest"), "{message}");
    assert!(files(&setup).is_empty());
    fs::write(registry.stored(&digest), manifest).unwrap();
    assert_eq!(add(&setup, &[&at(&digest)]).await.code, Some(0));
}

/// Media types and bytes.
type Layers<'a> = &'a [(&'a str, &'a [u8])];

#[tokio::test]
async fn what_is_no_component_is_refused() {
    let registry = Registry::open().await;
    let setup = Setup::new();
    let component = chameleon::version("1", "pet");
    let tar = "application/vnd.oci.image.layer.v1.tar";
    let core = wat::parse_str("(module)").unwrap();
    let cases: [(Layers<'_>, &str, &str); 5] = [
        (&[(WASM, b"no wasm at all")], "plugin_not_a_component", "not a WebAssembly component"),
        (&[(WASM, &core)], "plugin_not_a_component", "core module"),
        (&[(tar, &component)], "registry_artifact", tar),
        (&[(WASM, &component), (WASM, &core)], "registry_artifact", "2 layers"),
        (&[], "registry_artifact", "no layer"),
    ];
    for (layers, code, why) in cases {
        let digest = registry.publish("odd", "1", layers).await;
        let done = add(&setup, &[&format!("oci://{}/odd@{digest}", registry.name())]).await;
        let message = refused(&done, 4, code);
        assert!(message.contains(why), "{message}");
    }
    // An index of manifests.
    let digest = registry.publish("odd", "1", &[(WASM, &component)]).await;
    let entry = json!({ "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 1,
        "platform": { "os": "wasip2", "architecture": "wasm" } });
    let index = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry] });
    let index = registry.manifest("odd", "all", &index).await;
    let done = add(&setup, &[&format!("oci://{}/odd@{index}", registry.name())]).await;
    let message = refused(&done, 4, "registry_artifact");
    assert!(message.contains(&digest), "{message}");

    // Larger than a host would load; the manifest says so, or says less than there is.
    fs::write(setup.root().join("small.toml"), "[catalog]\nmax-component = \"100B\"\n").unwrap();
    let small = format!("oci://{}/odd@{digest}", registry.name());
    let done = add(&setup, &[&small, "--config", "small.toml"]).await;
    assert!(refused(&done, 4, "plugin_too_large").contains("max-component"));
    let layer = json!({ "mediaType": WASM, "digest": registry::digest(&component), "size": 10 });
    let config = json!({ "mediaType": "application/vnd.oci.empty.v1+json", "digest": registry::digest(b"{}"), "size": 2 });
    let lying = json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
    let digest = registry.manifest("odd", "lying", &lying).await;
    let done = add(&setup, &[&format!("oci://{}/odd@{digest}", registry.name())]).await;
    assert!(refused(&done, 4, "registry_digest").contains("more than"));
    assert!(files(&setup).is_empty());
}

#[tokio::test]
async fn another_plugin_is_not_overwritten() {
    let setup = Setup::new();
    let [one, two] = ["1", "2"].map(|version| chameleon::version(version, "pet"));
    fs::write(setup.root().join("pet.wasm"), &one).unwrap();
    let done = add(&setup, &["pet.wasm"]).await;
    assert_eq!((done.code, &done.json()["status"]), (Some(0), &json!("added")), "{done:?}");
    assert_eq!(add(&setup, &["pet.wasm"]).await.json()["status"], "unchanged");
    fs::write(setup.root().join("pet.wasm"), &two).unwrap();
    fs::write(setup.plugins().join("pet.toml"), format!("sha256 = \"{}\"\n", registry::digest(&one)))
        .unwrap();
    let message = refused(&add(&setup, &["pet.wasm"]).await, 4, "plugin_exists");
    assert!(message.contains("--replace"), "{message}");
    assert_eq!(fs::read(setup.plugins().join("pet.wasm")).unwrap(), one);
    let done = add(&setup, &["pet.wasm", "--replace"]).await.json();
    assert_eq!((&done["status"], &done["policy"]["pin"]), (&json!("replaced"), &json!("other")));
    assert_eq!(fs::read(setup.plugins().join("pet.wasm")).unwrap(), two);
    assert!(done["signature"].is_null());
    let signers = "[catalog]\nsigners = [\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]\n";
    fs::write(setup.root().join("signed.toml"), signers).unwrap();
    let done = add(&setup, &["pet.wasm", "--config", "signed.toml"]).await.json();
    assert_eq!(done["signature"], json!({ "file": "plugins/pet.wasm.minisig", "there": false }));
    refused(&add(&setup, &["none.wasm"]).await, 4, "file_unreadable");
    let elsewhere =
        run(layby(setup.root(), ["plugins", "add", "pet.wasm", "--plugins", "nowhere", "--json"])).await;
    refused(&elsewhere, 2, "plugins_folder_missing");
}

#[tokio::test]
async fn a_registry_that_asks_is_told_who_the_operator_is() {
    let registry = Registry::open().await.with_password("").await;
    let setup = Setup::new();
    let component = chameleon::version("1", "pet");
    fs::write(setup.root().join("pet.wasm"), &component).unwrap();
    // Published, and logged in, by the official client.
    let python = guests::target().join("tools/oras/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python/publish.py");
    let mut publish = tokio::process::Command::new(python);
    publish.arg(script).args([&registry.name(), "team/pet:1", "pet.wasm", USER, PASSWORD]);
    publish.current_dir(setup.root()).env("HOME", setup.root());
    let published = run(publish).await;
    assert_eq!(published.code, Some(0), "{published:?}");
    let digest = published.out.trim();
    let reference = format!("oci://{}/team/pet@{digest}", registry.name());
    let docker = setup.root().join(".docker/config.json");
    let logged_in = fs::read_to_string(&docker).unwrap();
    assert!(logged_in.contains(&registry.name()), "{logged_in}");

    // Nobody is nobody.
    fs::remove_file(&docker).unwrap();
    let message = refused(&add(&setup, &[&reference]).await, 4, "registry_unauthenticated");
    assert!(message.contains("LAYBY_REGISTRY_USER") && message.contains("login"), "{message}");
    let with = |user: &str, password: &str| {
        let mut command = adding(&setup, &[&reference, "--replace", "-vv", "--log", "trace"]);
        command.env("LAYBY_REGISTRY_USER", user).env("LAYBY_REGISTRY_PASSWORD", password);
        run(command)
    };
    let wrong = with(USER, "wrong-sesame").await;
    let message = refused(&wrong, 4, "registry_unauthenticated");
    assert!(message.contains("LAYBY_REGISTRY_PASSWORD"), "{message}");
    refused(&with(USER, "").await, 2, "registry_credentials");
    assert!(files(&setup).is_empty());
    let right = with(USER, PASSWORD).await;
    assert_eq!(right.code, Some(0), "{right:?}");
    assert_eq!(fs::read(setup.plugins().join("pet.wasm")).unwrap(), component);
    // Not even the fullest log has it.
    let secret = registry::basic(USER, PASSWORD);
    for said in [&right, &wrong] {
        for hidden in [PASSWORD, "wrong-sesame", &secret] {
            assert!(!said.err.contains(hidden) && !said.out.contains(hidden), "{said:?}");
        }
    }

    fs::remove_file(setup.plugins().join("pet.wasm")).unwrap();
    fs::write(&docker, logged_in).unwrap();
    assert_eq!(add(&setup, &[&reference]).await.code, Some(0), "what the client's login has kept");
    fs::write(&docker, "{").unwrap();
    refused(&add(&setup, &[&reference]).await, 2, "registry_credentials");
}

#[tokio::test]
async fn https_by_a_certificate_that_is_trusted() {
    let authority = Authority::new();
    let [certificate, key] = authority.pair("DNS:localhost,IP:127.0.0.1", 7);
    let registry = Registry::open().await;
    let digest = registry.publish("pet", "1", &[(WASM, &chameleon::version("1", "pet"))]).await;
    let tls = format!("  tls: {{certificate: {}, key: {}}}\n", certificate.display(), key.display());
    let registry = registry.with(&tls).await;
    let setup = Setup::new();
    let reference = format!("oci://{}/pet@{digest}", registry.name());
    let trusting = |args: &[&str]| {
        let mut command = adding(&setup, args);
        command.env("SSL_CERT_FILE", authority.certificate());
        run(command)
    };
    let message = refused(&add(&setup, &[&reference, "--https"]).await, 3, "registry_unreachable");
    assert!(message.contains("certificate"), "{message}");
    // Plain HTTP to a server that speaks HTTPS is no way in.
    assert_eq!(trusting(&[&reference]).await.code, Some(3));
    assert!(files(&setup).is_empty());
    let done = trusting(&[&reference, "--https"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[tokio::test]
async fn where_no_registry_is_the_command_says_so() {
    let setup = Setup::new();
    let digest = registry::digest(b"none");
    let port = free_port();
    for more in ["--https", "--plain-http"] {
        let done = add(&setup, &[&format!("oci://127.0.0.1:{port}/pet@{digest}"), more]).await;
        refused(&done, 3, "registry_unreachable");
    }
    // A server that is no registry.
    let other = layby_tests::Recorder::start().await;
    let at = other.origin().replace("http://", "oci://");
    let done = add(&setup, &[&format!("{at}/pet@{digest}")]).await;
    refused(&done, 4, "registry_digest");
    assert_eq!(other.lines(), [format!("GET /v2/pet/manifests/{digest}")]);
}

/// A server that remembers who said what of himself, and answers each path by `answer`.
async fn server(
    answer: impl Fn(&Request) -> Response + Clone + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<(String, String)>>>) {
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let all = seen.clone();
    let app = Router::new().fallback(move |request: Request| {
        let said = request.headers().get("authorization").map(|v| v.to_str().unwrap().to_owned());
        all.lock().unwrap().push((request.uri().to_string(), said.unwrap_or_default()));
        let reply = answer(&request);
        async { reply }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (origin, seen)
}

#[tokio::test]
async fn a_redirect_takes_no_credentials_along_and_leads_to_no_plain_http() {
    let component = chameleon::version("1", "pet");
    let registry = Registry::open().await;
    let digest = registry.publish("pet", "1", &[(WASM, &component)]).await;
    let setup = Setup::new();
    let reference = format!("oci://{}/pet@{digest}", registry.name());
    let adding = || {
        let mut command = adding(&setup, &[&reference, "--replace"]);
        command.env("LAYBY_REGISTRY_USER", USER).env("LAYBY_REGISTRY_PASSWORD", PASSWORD);
        run(command)
    };
    let to = |place: &str| {
        format!("middleware: {{storage: [{{name: redirect, options: {{baseurl: {place:?}}}}}]}}\n")
    };

    let bytes = component.clone();
    let (storage, seen) = server(move |_| Response::new(bytes.clone().into())).await;
    let registry = registry.with_password(&to(&storage)).await;
    let done = adding().await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let asked = seen.lock().unwrap().clone();
    assert!(asked.len() == 1 && asked[0].0.contains("/blobs/sha256/") && asked[0].1.is_empty(), "{asked:?}");

    // What comes from there counts by its digest as well.
    let (storage, _) = server(|_| Response::new("something else".into())).await;
    let registry = registry.with_password(&to(&storage)).await;
    refused(&adding().await, 4, "registry_digest");
    // It goes round in circles.
    let (storage, seen) = server(|request| {
        let again = format!("{}x", request.uri().path());
        Response::builder().status(302).header("location", again).body("".into()).unwrap()
    })
    .await;
    let registry = registry.with_password(&to(&storage)).await;
    assert!(refused(&adding().await, 3, "registry_failed").contains("redirects"));
    assert_eq!(seen.lock().unwrap().len(), 5);
    let _registry = registry.with_password(&to("http://192.0.2.1")).await;
    assert!(refused(&adding().await, 3, "registry_failed").contains("not under HTTPS"));
}

/// An answer with a token for the registry, signed by the key of `certificate`.
fn token(folder: &Path, scope: &str) -> Value {
    let code = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let pem = fs::read_to_string(folder.join("token.pem")).unwrap();
    let der: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let name = scope.split(':').nth(1).unwrap_or_default();
    let head = json!({ "typ": "JWT", "alg": "RS256", "x5c": [der] });
    let claims = json!({ "iss": "test's tokens", "sub": USER, "aud": "test", "jti": "1",
        "iat": now, "nbf": now - 60, "exp": now + 300,
        "access": [{ "type": "repository", "name": name, "actions": ["pull"] }] });
    let signed = format!("{}.{}", code(head.to_string().as_bytes()), code(claims.to_string().as_bytes()));
    fs::write(folder.join("signed"), &signed).unwrap();
    let sign = ["dgst", "-sha256", "-sign", "token.key", "signed"];
    let done = std::process::Command::new("openssl").args(sign).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    json!({ "token": format!("{signed}.{}", code(&done.stdout)) })
}

#[tokio::test]
async fn a_token_server_is_asked_where_the_registry_names_one() {
    let registry = Registry::open().await;
    let component = chameleon::version("1", "pet");
    let digest = registry.publish("team/pet", "1", &[(WASM, &component)]).await;
    let setup = Setup::new();
    let folder = setup.root().to_owned();
    let make = "req -x509 -newkey rsa:2048 -nodes -keyout token.key -out token.pem -subj /CN=tokens -days 2";
    let made =
        std::process::Command::new("openssl").args(make.split(' ')).current_dir(&folder).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let known = format!("Basic {}", registry::basic(USER, PASSWORD));
    let (realm, seen) = server({
        let folder = folder.clone();
        move |request| {
            let query = request.uri().query().unwrap_or_default();
            let scope = "repository:team/pet:pull";
            let right = query.contains(&scope.replace(':', "%3A").replace('/', "%2F"))
                && query.contains("service=test");
            let said =
                request.headers().get("authorization").is_some_and(|v| v.as_bytes() == known.as_bytes());
            let (status, body) = match (right, said) {
                (true, true) => (200, token(&folder, scope).to_string()),
                _ => (401, String::new()),
            };
            Response::builder().status(status).body(body.into()).unwrap()
        }
    })
    .await;
    let by = |realm: &str| {
        let bundle = folder.join("token.pem");
        format!(
            "auth: {{token: {{realm: {realm:?}, service: test, issuer: \"test's tokens\", rootcertbundle: {}}}}}\n",
            bundle.display()
        )
    };
    let reference = format!("oci://{}/team/pet@{digest}", registry.name());
    let registry = registry.with(&by(&format!("{realm}/token"))).await;
    refused(&add(&setup, &[&reference]).await, 4, "registry_unauthenticated");
    assert_eq!(seen.lock().unwrap().last().unwrap().1, "", "nobody is told to be nobody");
    let with = |password: &str| {
        let mut command = adding(&setup, &[&reference]);
        command.env("LAYBY_REGISTRY_USER", USER).env("LAYBY_REGISTRY_PASSWORD", password);
        run(command)
    };
    refused(&with("wrong").await, 4, "registry_unauthenticated");
    let done = with(PASSWORD).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(fs::read(setup.plugins().join("pet.wasm")).unwrap(), component);
    // The password goes to no server that could be anybody.
    let before = seen.lock().unwrap().len();
    let _registry = registry.with(&by("http://tokens.example/token")).await;
    assert!(refused(&with(PASSWORD).await, 3, "registry_failed").contains("not under HTTPS"));
    assert_eq!(seen.lock().unwrap().len(), before);
}

/// What a registry answers that means harm, by the repository or the token that is asked for.
fn harmful(request: &Request) -> Response {
    let path = request.uri().path().to_owned();
    let body = |bytes: Vec<u8>| Response::new(bytes.into());
    let word = path.split('/').nth(if path.starts_with("/v2/") { 2 } else { 1 }).unwrap_or_default();
    match (path.starts_with("/v2/"), word) {
        (true, "endless") => {
            let parts = stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 1 << 16]));
            Response::new(Body::from_stream(parts))
        }
        (true, "torn") => {
            let parts = [Ok(vec![b'{'; 10]), Err(std::io::Error::other("torn"))];
            Response::new(Body::from_stream(stream::iter(parts)))
        }
        (true, "broken") => Response::builder().status(500).body("\u{1b}[2J".into()).unwrap(),
        (true, "mute") => Response::builder().status(401).body(Body::empty()).unwrap(),
        (true, kind) => {
            let host = request.headers()["host"].to_str().unwrap();
            let asks = format!("Bearer realm=\"http://{host}/{kind}\",service=\"x\"");
            Response::builder().status(401).header("www-authenticate", asks).body(Body::empty()).unwrap()
        }
        (_, "lines") => body(br#"{"token": "a\r\nhost: elsewhere"}"#.to_vec()),
        (_, "large") => body(format!(r#"{{"token": "{}"}}"#, "a".repeat(1 << 20)).into_bytes()),
        (_, "none") => body(br#"{"token": ""}"#.to_vec()),
        _ => body(br#"{"access_token": "abc"}"#.to_vec()),
    }
}

#[tokio::test]
async fn a_registry_that_means_harm_is_bounded() {
    let (origin, seen) = server(harmful).await;
    let setup = Setup::new();
    let at = origin.replace("http://", "oci://");
    let digest = registry::digest(b"none");
    for (repository, exit, code, why) in [
        ("endless", 4, "registry_artifact", "larger than 4MiB"),
        ("torn", 3, "registry_unreachable", "v2/torn/manifests"),
        ("broken", 3, "registry_failed", "500"),
        ("mute", 3, "registry_failed", "no known scheme"),
        ("lines", 3, "registry_failed", "a token that is none"),
        ("large", 3, "registry_failed", "more than 256KiB"),
        ("none", 3, "registry_failed", "no token"),
        // A token that the registry then does not take.
        ("other", 4, "registry_unauthenticated", "wants to know who asks"),
    ] {
        let done = add(&setup, &[&format!("{at}/{repository}@{digest}")]).await;
        let message = refused(&done, exit, code);
        assert!(message.contains(why), "{repository}: {message}");
    }
    let last = seen.lock().unwrap().last().cloned().unwrap();
    assert_eq!(last.1, "Bearer abc", "{last:?}");
    assert!(files(&setup).is_empty());
}
