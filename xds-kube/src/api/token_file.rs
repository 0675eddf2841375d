//! Token of an account in a file, which may be replaced at any time.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::{fs, io, path::PathBuf};

use http::{HeaderValue, Request, Response, header::AUTHORIZATION};
use kube_client::{Client, Error, client::Body};
use tower_service::Service;

/// Service that adds the token in a file to each request.
///
/// `kube-client` sends the file as it is, so that a line break at its end, which most tools write,
/// makes each request fail. Here white space around the token is ignored, as in `kubectl`.
pub(super) struct TokenFile {
    client: Client,
    path: PathBuf,
    /// Token that was read last. It is used while the file cannot be read.
    header: HeaderValue,
}

impl TokenFile {
    /// Reads the token. `client` must not add another one.
    pub(super) fn new(client: Client, path: PathBuf) -> io::Result<Self> {
        let header = read(&path)?;
        Ok(Self { client, path, header })
    }
}

impl Service<Request<Body>> for TokenFile {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // There are few requests, so each reads the file.
        if let Ok(header) = read(&self.path) {
            self.header = header;
        }
        request.headers_mut().insert(AUTHORIZATION, self.header.clone());
        let client = self.client.clone();
        Box::pin(async move { client.send(request).await })
    }
}

fn read(path: &PathBuf) -> io::Result<HeaderValue> {
    let token = fs::read_to_string(path)?;
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    // A file that is being replaced may be empty.
    let token = Some(token.trim()).filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| invalid("the file is empty"))?;
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| invalid("the file is not a token"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn white_space_around_the_token_is_ignored() {
        let path = std::env::temp_dir().join(format!("xds-kube-token-{}", process::id()));
        for (file, expected) in
            [("abc", "Bearer abc"), ("abc\n", "Bearer abc"), (" abc\r\n", "Bearer abc")]
        {
            fs::write(&path, file).unwrap();
            assert_eq!(read(&path).unwrap(), expected);
        }
        fs::write(&path, "abc\ndef").unwrap();
        let why = read(&path).unwrap_err().to_string();
        assert_eq!(why, "the file is not a token");
        fs::write(&path, "\n").unwrap();
        assert_eq!(read(&path).unwrap_err().to_string(), "the file is empty");
        fs::remove_file(path).unwrap();
    }
}
