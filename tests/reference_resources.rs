//! The resources of the reference service.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use mcp_layers::{
    McpLayer, ServerInfo,
    reference::{
        MethodCall, MethodError, ReferenceService, Resource, ResourceCall, ResourceContents,
        ResourceResult, ResourceTemplate,
    },
};
use serde_json::{Value, json};
use support::{ask, ask_modern};
use tower::Layer;

fn server() -> ServerInfo {
    ServerInfo::new("weather", "1.2.0")
}

async fn note(call: ResourceCall) -> Result<ResourceResult, MethodError> {
    match (call.variable("owner"), call.variable("id")) {
        (Some(owner), Some(id)) if id != "none" => {
            assert_eq!(call.variable("other"), None);
            let text = format!("{owner} {id} {}", call.uri());
            Ok(ResourceResult::new()
                .contents(ResourceContents::text(text).mime_type("text/x-note")))
        }
        _ => Err(call.not_found()),
    }
}

fn service() -> ReferenceService {
    ReferenceService::new(server())
        .resource(
            Resource::new("x://text", "text")
                .title("Text")
                .description("Some text")
                .mime_type("text/plain")
                .size(4)
                .annotations(json!({ "priority": 0.5 })),
            |call: ResourceCall| async move {
                assert_eq!(call.variable("id"), None);
                Ok(ResourceResult::text("text"))
            },
        )
        .resource(Resource::new("x://many", "many"), |_| async {
            Ok(ResourceResult::blob([0, 255, 16])
                .contents(ResourceContents::text("").uri("x://other").mime_type("a/b")))
        })
        .resource(Resource::new("x://notes/fixed/1", "fixed"), |_| async {
            Ok(ResourceResult::text("before the template"))
        })
        .resource(Resource::new("x://panic", "panic"), |_| async {
            panic!("the secret of the resource")
        })
        .resource_template(
            ResourceTemplate::new("x://notes/{owner}/{id}", "notes")
                .unwrap()
                .title("Notes")
                .description("All notes")
                .mime_type("text/plain")
                .annotations(json!({ "audience": ["user"] })),
            note,
        )
        .resource_template(
            ResourceTemplate::new("x://notes/{all}/1", "shadowed").unwrap(),
            |_| async { panic!("the first template wins") },
        )
}

async fn read(uri: &str) -> Value {
    ask(
        &service(),
        "resources/read",
        &json!({ "uri": uri }).to_string(),
    )
    .await
}

// rule R5
#[tokio::test]
async fn resources_and_templates_are_listed_in_the_order_of_registration() {
    let list = ask(&service(), "resources/list", "{}").await;
    let resources = list["result"]["resources"].as_array().unwrap();
    assert_eq!(
        resources[0],
        json!({
            "uri": "x://text",
            "name": "text",
            "title": "Text",
            "description": "Some text",
            "mimeType": "text/plain",
            "size": 4,
            "annotations": { "priority": 0.5 },
        })
    );
    let uris: Vec<_> = resources
        .iter()
        .map(|it| it["uri"].as_str().unwrap())
        .collect();
    assert_eq!(
        uris,
        ["x://text", "x://many", "x://notes/fixed/1", "x://panic"]
    );
    let list = ask(&service(), "resources/templates/list", "{}").await;
    assert_eq!(
        list["result"],
        json!({ "resourceTemplates": [
            {
                "uriTemplate": "x://notes/{owner}/{id}",
                "name": "notes",
                "title": "Notes",
                "description": "All notes",
                "mimeType": "text/plain",
                "annotations": { "audience": ["user"] },
            },
            { "uriTemplate": "x://notes/{all}/1", "name": "shadowed" },
        ] })
    );
}

// rule R5
#[tokio::test]
async fn what_contents_do_not_say_themselves_the_resource_says() {
    assert_eq!(
        read("x://text").await["result"],
        json!({ "contents": [{ "uri": "x://text", "mimeType": "text/plain", "text": "text" }] })
    );
    assert_eq!(
        read("x://many").await["result"],
        json!({ "contents": [
            { "uri": "x://many", "blob": "AP8Q" },
            { "uri": "x://other", "mimeType": "a/b", "text": "" },
        ] })
    );
}

// rule R5
#[tokio::test]
async fn a_template_reads_what_no_resource_stands_for() {
    assert_eq!(
        read("x://notes/ad%61%2F/7").await["result"],
        json!({ "contents": [{
            "uri": "x://notes/ad%61%2F/7",
            "mimeType": "text/x-note",
            "text": "ada/ 7 x://notes/ad%61%2F/7",
        }] })
    );
    assert_eq!(
        read("x://notes/fixed/1").await["result"]["contents"][0]["text"],
        "before the template"
    );
}

// rule R5
#[tokio::test]
async fn an_unknown_resource_is_invalid_params_with_its_uri() {
    let long = format!("x://{}", "é".repeat(100_000));
    for uri in [
        "x://none",
        "x://TEXT",
        "x://text/",
        "",
        "x://notes/a/b/c",
        "x://notes/a/none",
        "x://notes/é/1",
        "\"\n",
        &long,
    ] {
        assert_eq!(
            read(uri).await["error"],
            json!({ "code": -32602, "message": "Resource not found", "data": { "uri": uri } })
        );
    }
    let stack = McpLayer::new(server()).layer(service());
    let answer = ask_modern(&stack, "resources/read", r#""uri":"x://none""#, "{}").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.json()["error"]["data"]["uri"], "x://none");
}

// rule R5
#[tokio::test]
async fn params_without_a_uri_are_invalid_params() {
    for params in [
        "{}",
        r#"{"uri":1}"#,
        r#"{"uri":null}"#,
        r#"{"uri":"\ud800"}"#,
        r#"{"name":"x://text"}"#,
    ] {
        let answer = ask(&service(), "resources/read", params).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}");
        assert_eq!(answer["error"].get("data"), None);
    }
}

// rules R3, V1, V2
#[tokio::test]
async fn answers_are_stamped_and_failures_tell_nothing() {
    let stack = McpLayer::new(server()).layer(service());
    for (method, params) in [
        ("resources/list", ""),
        ("resources/templates/list", ""),
        ("resources/read", r#""uri":"x://text""#),
    ] {
        let answer = ask_modern(&stack, method, params, "{}").await.json();
        assert_eq!(answer["result"]["resultType"], "complete", "{method}");
        assert_eq!(answer["result"]["ttlMs"], 0, "{method}");
    }
    let error = json!({ "code": -32603, "message": "Internal error" });
    assert_eq!(read("x://panic").await["error"], error);
}

// rule R1
#[tokio::test]
async fn without_resources_there_are_neither_methods_nor_a_capability() {
    let none = ReferenceService::new(server());
    for method in [
        "resources/list",
        "resources/templates/list",
        "resources/read",
    ] {
        let answer = ask(&none, method, r#"{"uri":"x://text"}"#).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
    let template = ResourceTemplate::new("x://{a}", "a").unwrap();
    let templates = none.clone().resource_template(template, note);
    let methods = none
        .clone()
        .method("resources/list", |_: MethodCall| async { Ok(json!({})) });
    for (service, resources) in [
        (none, None),
        (templates, Some(json!({}))),
        (methods, Some(json!({}))),
        (service(), Some(json!({}))),
    ] {
        let answer = ask(&service, "server/discover", "{}").await;
        let capabilities = &answer["result"]["capabilities"];
        assert_eq!(capabilities.get("resources").cloned(), resources);
    }
}

#[tokio::test]
async fn a_resource_at_the_same_uri_replaces_the_first() {
    let template = ResourceTemplate::new("x://notes/{owner}/{id}", "new").unwrap();
    let replaced = service()
        .resource(Resource::new("x://text", "new"), |_| async {
            Ok(ResourceResult::text("new"))
        })
        .resource_template(template, |_| async { Ok(ResourceResult::text("new")) });
    for uri in ["x://text", "x://notes/a/none"] {
        let answer = ask(
            &replaced,
            "resources/read",
            &json!({ "uri": uri }).to_string(),
        )
        .await;
        assert_eq!(
            answer["result"]["contents"][0],
            json!({ "uri": uri, "text": "new" })
        );
    }
    let list = ask(&replaced, "resources/templates/list", "{}").await;
    assert_eq!(
        list["result"]["resourceTemplates"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}
