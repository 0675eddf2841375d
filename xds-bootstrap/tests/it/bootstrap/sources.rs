//! Sources of a bootstrap.

use std::{fs, path::PathBuf, process};

use xds_bootstrap::{
    BOOTSTRAP_FILE, BOOTSTRAP_TEXT, Bootstrap, BootstrapSource, ErrorKind, FeatureSwitch,
    FeatureSwitches,
};

const TEXT: &str =
    r#"{"xds_servers": [{"server_uri": "inline", "channel_creds": [{"type": "insecure"}]}]}"#;

/// A file that is removed at the end of the test.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("xds-bootstrap-{}-{name}", process::id()));
        fs::write(&path, content).expect("the temporary directory is writable");
        Self(path)
    }

    fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn bootstrap_file_takes_precedence_over_inline_text() {
    println!("covers: BS-01 B23");
    let file = TempFile::new("order", TEXT.replace("inline", "file").as_bytes());
    let load = |path: Option<String>, text: Option<&str>| {
        Bootstrap::from_variables(|name| match name {
            BOOTSTRAP_FILE => path.clone(),
            BOOTSTRAP_TEXT => text.map(String::from),
            _ => None,
        })
    };
    let uri = |loaded: Bootstrap| String::from(&*loaded.servers[0].uri);
    assert_eq!(load(Some(file.path()), Some(TEXT)).map(uri).as_deref(), Ok("file"));
    assert_eq!(load(Some(String::new()), Some(TEXT)).map(uri).as_deref(), Ok("inline"));
    assert_eq!(load(None, Some(TEXT)).map(uri).as_deref(), Ok("inline"));
    for (path, text) in [(None, None), (Some(String::new()), Some(""))] {
        let why = load(path, text).expect_err("nothing is set");
        assert_eq!(why.kind(), &ErrorKind::NotConfigured);
    }
    assert_eq!(BootstrapSource::from_variables(|_| None), None);
}

#[test]
fn switches_are_read_from_the_environment() {
    println!("covers: S2.064 S3.099");
    let loaded = Bootstrap::from_variables(|name| match name {
        BOOTSTRAP_TEXT => Some(TEXT.into()),
        FeatureSwitches::DATA_ERRORS => Some("false".into()),
        _ => None,
    });
    assert_eq!(loaded.map(|loaded| loaded.feature_switches.data_errors), Ok(FeatureSwitch::Off));
}

#[test]
fn unreadable_bootstrap_file_is_named_in_the_error() {
    println!("covers: BS-02");
    let refusal = |path: &str| {
        let source = BootstrapSource::File(path.into());
        source.load(FeatureSwitches::default()).expect_err("it cannot be used")
    };
    let why = refusal("/nonexistent/xds.json");
    assert_eq!(why.source_name(), Some("/nonexistent/xds.json"));
    assert!(matches!(why.kind(), ErrorKind::Unreadable(_)), "{why}");

    let empty = TempFile::new("empty", b"");
    let why = refusal(&empty.path());
    assert_eq!(
        why.to_string(),
        format!("{}: line 1, column 1: invalid JSON: there is no text", empty.path())
    );

    let bytes = TempFile::new("bytes", b"\xff\xfe");
    assert!(matches!(refusal(&bytes.path()).kind(), ErrorKind::Unreadable(_)));

    let long = TempFile::new("long", &vec![b' '; (16 << 20) + 1]);
    assert_eq!(refusal(&long.path()).kind(), &ErrorKind::TooLong { limit: 16 << 20 });

    let of_variable = Bootstrap::from_variables(|name| {
        (name == BOOTSTRAP_FILE).then(|| "/nonexistent/xds.json".into())
    });
    let why = of_variable.map_err(|why| why.to_string()).expect_err("it does not exist");
    let place = "/nonexistent/xds.json (GRPC_XDS_BOOTSTRAP): cannot read: ";
    assert!(why.starts_with(place), "{why}");

    let text = BootstrapSource::Inline("{}".into()).load(FeatureSwitches::default());
    assert_eq!(
        text.map_err(|why| why.to_string()).err().as_deref(),
        Some("GRPC_XDS_BOOTSTRAP_CONFIG: xds_servers: required, but missing")
    );
}

#[test]
fn process_bootstrap_is_read_once() {
    println!("covers: BS-27");
    // The environment of the test has no bootstrap, or one that the first call reads.
    let address = || match Bootstrap::of_process() {
        Ok(bootstrap) => std::ptr::from_ref(bootstrap).addr(),
        Err(why) => std::ptr::from_ref(why).addr(),
    };
    assert_eq!(address(), address());
}
