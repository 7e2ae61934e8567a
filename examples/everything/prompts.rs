//! Prompts, and suggestions for their arguments.

use mcp_layers::reference::{
    Completion, CompletionCall, InputRequired, MethodError, Prompt, PromptArgument, PromptCall,
    PromptResult, ReferenceService,
};
use serde::Deserialize;

use super::{
    content,
    input::{Elicited, form},
};

pub(crate) fn add(service: ReferenceService) -> ReferenceService {
    let argument = |name: &str, description: &str| {
        PromptArgument::new(name)
            .description(description)
            .required()
    };
    service
        .prompt(prompt("test_simple_prompt", "Says something"), |_| async {
            Ok(PromptResult::new().user("This is a simple prompt for testing."))
        })
        .prompt(
            prompt("test_prompt_with_arguments", "Repeats its arguments")
                .argument(argument("arg1", "First test argument"))
                .argument(argument("arg2", "Second test argument")),
            arguments,
        )
        .prompt(
            prompt("test_prompt_with_embedded_resource", "Shows a resource")
                .argument(argument("resourceUri", "URI of the resource to embed")),
            embedded_resource,
        )
        .prompt(
            prompt("test_prompt_with_image", "Shows an image"),
            |_| async {
                Ok(PromptResult::new()
                    .user_content(content::image())
                    .user("Please analyze the image above."))
            },
        )
        .prompt(
            prompt("test_input_required_result_prompt", "Asks the user first"),
            context,
        )
        .completion(complete)
}

fn prompt(name: &str, description: &str) -> Prompt {
    Prompt::new(name).description(description)
}

#[derive(Deserialize)]
struct Arguments {
    arg1: String,
    arg2: String,
}

async fn arguments(call: PromptCall) -> Result<PromptResult, MethodError> {
    let Arguments { arg1, arg2 } = call.arguments()?;
    let text = format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'");
    Ok(PromptResult::new().user(text))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EmbeddedResource {
    resource_uri: String,
}

async fn embedded_resource(call: PromptCall) -> Result<PromptResult, MethodError> {
    let EmbeddedResource { resource_uri } = call.arguments()?;
    let text = "Embedded resource content for testing.";
    Ok(PromptResult::new()
        .user_content(content::resource(&resource_uri, "text/plain", text))
        .user("Please process the embedded resource above."))
}

#[derive(Deserialize)]
struct Context {
    context: String,
}

async fn context(call: PromptCall) -> Result<PromptResult, MethodError> {
    Ok(match call.input_response("user_context")? {
        Some(Elicited::Accept {
            content: Context { context },
        }) => PromptResult::new().user(format!("In the context of {context}:")),
        Some(Elicited::Cancel | Elicited::Decline) => PromptResult::new().user("In no context:"),
        None => {
            let ask = form("What context should the prompt use?", "context", "string");
            InputRequired::new().request("user_context", ask).into()
        }
    })
}

async fn complete(call: CompletionCall) -> Result<Completion, MethodError> {
    let words = ["paris", "park", "party"].into_iter();
    Ok(Completion::new(
        words.filter(|word| word.starts_with(call.value())),
    ))
}
