//! `xds serve --export`: files with the served resources.

use std::fs;

use crate::support::{self, TempDir, Xds, clusters};

/// A client can subscribe to the exported files and gets the resources of the streams.
#[test]
fn serve_exports_what_it_serves() {
    let (directory, to) = (TempDir::new(), TempDir::new());
    directory.save("all.yaml", &clusters("one two"));
    let export = to.join("out");
    let (serve, _) = Xds::serve_with(
        directory.path(),
        &["--listen", "127.0.0.1:0", "--export", export.to_str().unwrap()],
    );
    let file = export.join("cds.json");
    let watch = Xds::spawn(&["watch", "--file", file.to_str().unwrap(), "-o", "ndjson", "cds"]);
    let told = |names: &[&str], kind: &str| {
        watch.wait(&format!("{kind}: {names:?}"), |events| {
            let of_kind = events.iter().filter(|it| it["event"] == kind);
            let mut told: Vec<_> = of_kind.filter_map(|it| it["name"].as_str()).collect();
            told.sort_unstable();
            (told == names).then_some(())
        });
    };
    told(&["one", "two"], "changed");
    directory.replace("all.yaml", &clusters("two three"));
    told(&["one", "three", "two"], "changed");
    told(&["one"], "removed");
    // A broken file does not change the exported files.
    let before = fs::read(&file).unwrap();
    directory.replace("all.yaml", "resources: [");
    serve.wait_count("file_error", 1);
    assert_eq!(fs::read(&file).unwrap(), before);

    let served = directory.path().to_str().unwrap();
    let ended = support::run(&["serve", served, "--listen", "127.0.0.1:0", "--export", served]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("must not be the served directory"), "{}", ended.stderr);
    println!("covers: M199");
}

#[cfg(unix)]
mod modes {
    use std::{os::unix::fs::PermissionsExt as _, process::Command};

    use super::*;
    use crate::support::eventually;

    const SECRET: &str = "'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n\
                          name: s\ngeneric_secret: { secret: { inline_string: hush } }\n";

    fn mode(path: &std::path::Path) -> Result<u32, String> {
        let metadata = fs::metadata(path).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(metadata.permissions().mode() & 0o7777)
    }

    #[test]
    fn exported_secrets_are_owner_only_whatever_the_umask() {
        for umask in ["000", "277"] {
            let (directory, to) = (TempDir::new(), TempDir::new());
            directory.save("cds.yaml", &clusters("one"));
            directory.save("sds.yaml", SECRET);
            let (served, out) = (directory.path().to_str().unwrap(), to.join("out"));
            let shell = format!("umask {umask}; exec \"$@\"");
            let mut child = Command::new("sh")
                .args(["-c", &shell, "sh", env!("CARGO_BIN_EXE_xds"), "serve", served])
                .args(["--listen", "127.0.0.1:0", "--for", "20s", "--export"])
                .arg(&out)
                .spawn()
                .unwrap();
            let modes = eventually("the export", || {
                Ok([mode(&out.join("sds.json"))?, mode(&out)?, mode(&out.join("cds.json"))?])
            });
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(modes[..2], [0o600, 0o700], "umask {umask}: {modes:?}");
            if umask == "000" {
                assert_eq!(modes[2], 0o666, "what is no secret is as the umask says");
            }
        }
    }

    #[test]
    fn serve_prints_where_secrets_are_exported_and_warns_of_open_directories() {
        let (directory, to) = (TempDir::new(), TempDir::new());
        directory.save("sds.yaml", SECRET);
        let path = directory.path().to_str().unwrap();
        let (new, open) = (to.join("new"), to.join("open"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        for (out, is_open) in [(&new, false), (&open, true)] {
            let out = out.to_str().unwrap();
            let mut serve =
                Xds::spawn(&["serve", path, "--listen", "127.0.0.1:0", "--export", out]);
            serve.wait_stdout(&format!("exporting to {out} (files with secrets have mode 0600)"));
            serve.signal("TERM");
            let warning = format!("other users can access the export directory {out} (mode 0755)");
            assert_eq!(serve.stderr().contains(&warning), is_open, "{}", serve.stderr());
            assert_eq!(mode(&open), Ok(0o755), "what exists keeps its mode");
        }
        assert_eq!(mode(&open.join("sds.json")), Ok(0o600));
    }
}
