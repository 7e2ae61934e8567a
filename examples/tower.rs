//! The layers one by one around the reference service, under no host at all: a request in, an
//! answer out, as in a test.
//!
//! ```sh
//! cargo run --example tower
//! ```

use std::convert::Infallible;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use mcp_layers::{EnvelopeLayer, EraResolverLayer, MirrorHeaderValidatorLayer, OriginGuardLayer};
use tower::{ServiceBuilder, ServiceExt};

use self::common::tools;

mod common {
    pub(crate) mod tools;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Infallible> {
    let service = ServiceBuilder::new()
        .layer(OriginGuardLayer::new())
        .layer(EraResolverLayer::new())
        .layer(MirrorHeaderValidatorLayer::new())
        .layer(EnvelopeLayer::new(tools::server_info()))
        .service(tools::service());

    let message = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let mut request = Request::new(Full::new(Bytes::from(message)));
    *request.method_mut() = http::Method::POST;
    let answer = service.oneshot(request).await?;
    println!("{}", answer.status());
    let body = answer.into_body().collect().await?.to_bytes();
    println!("{}", String::from_utf8_lossy(&body));
    Ok(())
}
