//! Which way a request takes.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    http::{Request, Response, StatusCode},
};
use mcp_layers::{EraKind, Message};
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::timeout};

use super::{
    session::Session,
    upstream::{Fault, Upstream, message},
};

/// The service behind the layers.
pub(crate) async fn handle(
    State(gateway): State<Gateway>,
    request: Request<Body>,
) -> Response<Body> {
    let message = Message::get(request.extensions()).cloned();
    let answer = match &message {
        Some(message) if message.era().kind() == EraKind::Modern => {
            gateway.modern(message, request).await
        }
        // Clients of the handshake era have sessions of their own.
        _ => gateway.upstream.send(request).await,
    };
    let id = message.as_ref().and_then(Message::id);
    answer.unwrap_or_else(|fault| fault.answer(id))
}

/// The upstream server and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    upstream: Arc<Upstream>,
    way: Arc<Mutex<Option<Way>>>,
}

/// How modern requests reach the server.
#[derive(Clone, Debug)]
enum Way {
    /// As they are: the server knows the revision, or lets nobody find out.
    Straight,
    /// In a session: the server only knows the handshake.
    Session(Arc<Session>),
}

impl Way {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Straight, Self::Straight) => true,
            (Self::Session(one), Self::Session(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Finds out what the server knows.
    async fn find(upstream: Arc<Upstream>) -> Result<Self, Fault> {
        if is_modern(&upstream).await? {
            return Ok(Self::Straight);
        }
        let session = Session::open(upstream).await?;
        Ok(Self::Session(Arc::new(session)))
    }
}

impl Gateway {
    pub(crate) fn new(upstream: Upstream) -> Self {
        Self {
            upstream: Arc::new(upstream),
            way: Arc::default(),
        }
    }

    async fn modern(
        &self,
        message: &Message,
        request: Request<Body>,
    ) -> Result<Response<Body>, Fault> {
        let (head, _) = request.into_parts();
        let mut is_first = true;
        loop {
            let body = Body::from(message.body().clone());
            let request = Request::from_parts(head.clone(), body);
            let way = self.way().await?;
            let answer = match &way {
                Way::Straight => self.upstream.send(request).await,
                Way::Session(session) => Arc::clone(session).answer(request).await,
            };
            match answer {
                Err(Fault::Gone) if is_first => self.forget(&way).await,
                Err(fault @ (Fault::Down | Fault::Gone)) => {
                    self.forget(&way).await;
                    return Err(fault);
                }
                // An older server may have taken the place of the one that was asked.
                Ok(answer) if is_first && matches!(way, Way::Straight) && refuses(&answer) => {
                    match is_modern(&self.upstream).await {
                        Ok(false) => self.forget(&way).await,
                        _ => return Ok(answer),
                    }
                }
                answer => return answer,
            }
            is_first = false;
        }
    }

    /// The way to the server; found once, however many ask for it.
    async fn way(&self) -> Result<Way, Fault> {
        let finding = async {
            let mut way = Arc::clone(&self.way).lock_owned().await;
            if let Some(way) = &*way {
                return Ok(way.clone());
            }
            let upstream = Arc::clone(&self.upstream);
            // A client that leaves meanwhile leaves no session behind that nobody knows.
            let finding = tokio::spawn(async move {
                let found = Way::find(upstream).await?;
                Ok(way.insert(found).clone())
            });
            finding.await.unwrap_or(Err(Fault::BrokeOff))
        };
        let found = timeout(self.upstream.patience(), finding).await;
        found.unwrap_or(Err(Fault::Slow))
    }

    async fn forget(&self, gone: &Way) {
        let mut way = self.way.lock().await;
        if way.as_ref().is_some_and(|way| way.is(gone)) {
            *way = None;
        }
    }

    /// Ends the session, if there is one.
    pub(crate) async fn close(&self) {
        if let Some(Way::Session(session)) = self.way.lock().await.take() {
            session.close().await;
        }
    }
}

/// Asks the server whether it knows the revision.
async fn is_modern(upstream: &Upstream) -> Result<bool, Fault> {
    let discover = json!({
        "jsonrpc": "2.0",
        "id": 0,
        "method": "server/discover",
        "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        } },
    });
    let mut request = message(discover.to_string());
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "server/discover"),
    ] {
        request
            .headers_mut()
            .insert(name, value.parse().map_err(|_| Fault::Down)?);
    }
    match upstream.ask(request).await {
        Ok((head, text)) => {
            let answer = serde_json::from_slice::<Value>(&text).unwrap_or_default();
            let versions = answer["result"]["supportedVersions"].as_array();
            let is_modern = versions.is_some_and(|it| it.contains(&json!("2026-07-28")));
            // A session that all clients share would be one with all their credentials.
            let asks_for_credentials = matches!(
                head.status(),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
            );
            Ok(is_modern || asks_for_credentials)
        }
        Err(Fault::Down) => Err(Fault::Down),
        // What a server does about a method that it does not know is its own affair.
        Err(_) => Ok(false),
    }
}

fn refuses(answer: &Response<Body>) -> bool {
    matches!(
        answer.status(),
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
    )
}
