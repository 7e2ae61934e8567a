//! The lists of the reference service, in pages.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use std::num::NonZeroUsize;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use mcp_layers::{
    McpLayer, ServerInfo,
    reference::{
        AnswerBody, Prompt, PromptResult, ReferenceService, Resource, ResourceResult,
        ResourceTemplate, Tool, ToolResult,
    },
};
use serde_json::{Value, json};
use support::{ask, ask_modern, modern, modern_body, send};
use tower::{Layer, util::AndThenLayer};

const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    (
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
    ),
];

fn server() -> ServerInfo {
    ServerInfo::new("weather", "1.2.0")
}

/// A service with so many of everything, in pages of this size.
fn service(count: usize, size: Option<usize>) -> ReferenceService {
    let mut service = ReferenceService::new(server());
    // in the middle of the registration: it holds for what comes later as well
    for number in 0..count {
        if number == count / 2 {
            if let Some(size) = size {
                service = service.page_size(NonZeroUsize::new(size).unwrap());
            }
        }
        let name = format!("x://\"\\{number}\"");
        service = service
            .tool(Tool::new(&*name, json!({ "type": "object" })), |_| async {
                Ok(ToolResult::default())
            })
            .prompt(Prompt::new(&*name), |_| async { Ok(PromptResult::new()) })
            .resource(Resource::new(&*name, ""), |_| async {
                Ok(ResourceResult::new())
            })
            .resource_template(ResourceTemplate::new(&*name, "").unwrap(), |_| async {
                Ok(ResourceResult::new())
            });
    }
    service
}

fn params(cursor: Option<&Value>) -> String {
    cursor.map_or("{}".into(), |cursor| format!(r#"{{"cursor":{cursor}}}"#))
}

/// The keys on each page, and the cursors that led to the pages behind the first.
async fn pages(
    service: &ReferenceService,
    list: (&str, &str, &str),
) -> (Vec<Vec<String>>, Vec<Value>) {
    let (method, member, key) = list;
    let (mut pages, mut cursors) = (Vec::new(), Vec::new());
    loop {
        let answer = ask(service, method, &params(cursors.last())).await;
        let result = &answer["result"];
        let items = result[member]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"));
        let keys = items
            .iter()
            .map(|item| item[key].as_str().unwrap().to_owned());
        pages.push(keys.collect());
        match result.get("nextCursor") {
            Some(cursor) => cursors.push(cursor.clone()),
            None => return (pages, cursors),
        }
        assert!(pages.len() < 100, "the pages do not end");
    }
}

// rule R5
#[tokio::test]
async fn all_pages_together_are_the_list() {
    for list in LISTS {
        for (count, size, lengths) in [
            (1, Some(1), vec![1]),
            (5, None, vec![5]),
            (5, Some(1), vec![1; 5]),
            (5, Some(2), vec![2, 2, 1]),
            (6, Some(3), vec![3, 3]),
            (5, Some(5), vec![5]),
            (5, Some(usize::MAX), vec![5]),
        ] {
            let (pages, cursors) = pages(&service(count, size), list).await;
            let found: Vec<_> = pages.iter().map(Vec::len).collect();
            assert_eq!(found, lengths, "{list:?} {count} {size:?}");
            let expected = (0..count).map(|number| format!("x://\"\\{number}\""));
            assert_eq!(pages.concat(), expected.collect::<Vec<_>>());
            for cursor in cursors {
                let bytes = cursor.as_str().unwrap().bytes();
                assert!(
                    bytes
                        .clone()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
                );
            }
        }
    }
}

// rule R5
#[tokio::test]
async fn a_cursor_that_was_not_given_out_is_invalid_params() {
    for list in LISTS {
        let service = service(5, Some(2));
        let (_, cursors) = pages(&service, list).await;
        let good = cursors[0].as_str().unwrap();
        // is read whatever its spelling
        let escaped = format!(r#""\u{:04x}{}""#, good.as_bytes()[0], &good[1..]);
        let answer = ask(&service, list.0, &format!(r#"{{"cursor":{escaped}}}"#)).await;
        assert!(answer["result"].is_object());
        // the first item has none, and those in the middle of a page neither
        let encode = |text: &str| {
            use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
            BASE64_URL_SAFE_NO_PAD.encode(text)
        };
        let bad = [
            json!(""),
            json!("abc"),
            json!(format!("{good}=")),
            json!(format!("{good}A")),
            json!(&good[1..]),
            json!(format!(" {good}")),
            json!(encode("x://\"\\0\"")),
            json!(encode("x://\"\\1\"")),
            json!(encode("x://\"\\9\"")),
            json!("x".repeat(100_000)),
            json!(null),
            json!(2),
            json!([good]),
            json!({ "cursor": good }),
        ];
        for cursor in bad {
            let answer = ask(&service, list.0, &params(Some(&cursor))).await;
            assert_eq!(answer["error"]["code"], -32602, "{cursor:.80}");
        }
    }
}

// rule R5
#[tokio::test]
async fn a_cursor_of_other_pages_is_refused_and_never_skips() {
    let (_, cursors) = pages(&service(6, Some(4)), LISTS[0]).await;
    let answer = ask(&service(6, Some(5)), "tools/list", &params(cursors.last())).await;
    assert_eq!(answer["error"]["code"], -32602);
    // where a page begins at the same item, it is that page
    let answer = ask(&service(6, Some(2)), "tools/list", &params(cursors.last())).await;
    assert_eq!(answer["result"]["tools"][0]["name"], "x://\"\\4\"");
}

// rules R5, V1, V2
#[tokio::test]
async fn every_page_is_stamped_alike() {
    let stack = McpLayer::new(server()).layer(service(3, Some(2)));
    let answer = ask_modern(&stack, "tools/list", "", "{}").await.json();
    let result = &answer["result"];
    assert_eq!(result["cacheScope"], "private");
    let cursor = format!(r#""cursor":{}"#, result["nextCursor"]);
    let answer = ask_modern(&stack, "tools/list", &cursor, "{}").await.json();
    assert_eq!(answer["result"]["cacheScope"], "private");
    assert_eq!(answer["result"]["ttlMs"], 0);
    assert_eq!(answer["result"].get("nextCursor"), None);
}

// rule R3
#[tokio::test]
async fn a_change_behind_the_first_answer_is_seen() {
    let first = service(3, Some(2));
    pages(&first, LISTS[0]).await;
    let second = first
        .clone()
        .tool(Tool::new("new", json!({ "type": "object" })), |_| async {
            Ok(ToolResult::default())
        });
    assert_eq!(pages(&second, LISTS[0]).await.0.concat().len(), 4);
    assert_eq!(pages(&first, LISTS[0]).await.0.concat().len(), 3);
    let third = first.page_size(NonZeroUsize::MIN);
    assert_eq!(pages(&third, LISTS[0]).await.0.len(), 3);
}

/// The service tells its layer where the result is; a layer in between may have another answer.
#[tokio::test]
async fn a_list_is_stamped_as_it_is_even_if_another_answer_takes_its_place() {
    let other = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"ttlMs":7}}"#;
    for (method, ..) in LISTS {
        for replace in [None, Some(other)] {
            let request = || modern(method, modern_body(method, ""));
            let mcp = McpLayer::new(server());
            let told = send(mcp.layer(service(3, Some(2))), request()).await;
            let rebuild = AndThenLayer::new(move |response: Response<AnswerBody>| async move {
                let (head, body) = response.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = replace.map_or_else(|| Bytes::copy_from_slice(&body), Bytes::from);
                Ok(Response::from_parts(head, Full::new(body)))
            });
            let read = send(mcp.layer(rebuild.layer(service(3, Some(2)))), request()).await;
            if replace.is_none() {
                assert_eq!(read.body, told.body, "{method}");
            } else {
                let result = &read.json()["result"];
                assert_eq!(result["ttlMs"], 7, "{method}");
                assert_eq!(result["resultType"], "complete", "{method}");
            }
        }
    }
}
