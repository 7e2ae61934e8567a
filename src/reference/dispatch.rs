//! From a message to its answer, or to the handler that will give it.

use std::{fmt, num::NonZeroUsize, sync::Arc};

use bytes::Bytes;
use http::Extensions;
use serde_json::{Map, Value, json};

use super::{
    CompletionCall, CompletionRef, LogLevel, MethodCall, MethodError, Notifier, Prompt, PromptCall,
    Resource, ResourceCall, ResourceTemplate, StateSeal, Tool, ToolCall, answer,
    call::{Call, Variables},
    completion::Completing,
    handler::{Handler, ToolHandler, Validate},
    list::{List, Listed},
    listen::{Offer, Subscription},
    params,
    work::{Answering, Work},
};
use crate::{
    envelope::ServerInfo,
    era::{EraKind, EraRules},
    json::Cursor,
    message::{Message, MessageKind},
    protocol::{LEGACY_VERSIONS, MODERN_VERSIONS, code, meta, method},
};

/// The most messages that one array may hold: a short message can have a long answer.
const BATCH_LIMIT: usize = 1_000;

/// Capabilities, and the method of the user's own that backs each.
const CAPABILITIES: [(&str, Option<&str>); 5] = [
    ("completions", Some(method::COMPLETE)),
    ("logging", None),
    ("prompts", Some(method::PROMPTS_LIST)),
    ("resources", Some(method::RESOURCES_LIST)),
    ("tools", Some(method::TOOLS_LIST)),
];

/// What a service was built of.
#[derive(Clone)]
pub(super) struct Config {
    server: ServerInfo,
    instructions: Option<String>,
    tools: List<Tool>,
    prompts: List<Prompt>,
    resources: List<Resource>,
    templates: List<ResourceTemplate>,
    completion: Option<Arc<Handler<CompletionCall>>>,
    methods: Vec<(String, Arc<Handler<MethodCall>>)>,
    validate: Option<Arc<Validate>>,
    /// The lowest level that clients of the handshake era get, if messages are logged at all.
    log_level: Option<LogLevel>,
    seal: Option<Arc<StateSeal>>,
    notifier: Option<Notifier>,
}

/// What becomes of a message.
pub(super) enum Reply {
    /// Nothing is due.
    Accepted,
    Answer(Vec<u8>),
    /// The answer to a modern request, whose result begins here and has only members of its own.
    Plain(Vec<u8>, usize),
    /// A handler is at work. An empty text means that nothing is due after all.
    Later(Work),
    /// A stream without an end of its own.
    Listen(Subscription),
    /// The message can't be understood: an answer with status 400.
    Refused(Vec<u8>),
}

impl Config {
    pub(super) fn new(server: ServerInfo) -> Self {
        Self {
            server,
            instructions: None,
            tools: List::default(),
            prompts: List::default(),
            resources: List::default(),
            templates: List::default(),
            completion: None,
            methods: Vec::new(),
            validate: None,
            log_level: None,
            seal: None,
            notifier: None,
        }
    }

    pub(super) fn set_instructions(&mut self, instructions: String) {
        self.instructions = Some(instructions);
    }

    pub(super) fn set_validate(&mut self, validate: Arc<Validate>) {
        self.validate = Some(validate);
    }

    pub(super) fn set_seal(&mut self, seal: StateSeal) {
        self.seal = Some(Arc::new(seal));
    }

    pub(super) fn set_notifier(&mut self, notifier: Notifier) {
        self.notifier = Some(notifier);
    }

    pub(super) fn set_log_level(&mut self, level: LogLevel) {
        self.log_level = Some(level);
    }

    pub(super) fn set_page_size(&mut self, size: NonZeroUsize) {
        self.tools.set_page_size(size);
        self.prompts.set_page_size(size);
        self.resources.set_page_size(size);
        self.templates.set_page_size(size);
    }

    pub(super) fn add_tool(&mut self, tool: Arc<Tool>, handler: Arc<ToolHandler>) {
        self.tools.add(tool, handler);
    }

    pub(super) fn add_prompt(&mut self, prompt: Prompt, handler: Arc<Handler<PromptCall>>) {
        self.prompts.add(Arc::new(prompt), handler);
    }

    pub(super) fn add_resource(&mut self, resource: Resource, handler: Arc<Handler<ResourceCall>>) {
        self.resources.add(Arc::new(resource), handler);
    }

    pub(super) fn add_template(
        &mut self,
        template: ResourceTemplate,
        handler: Arc<Handler<ResourceCall>>,
    ) {
        self.templates.add(Arc::new(template), handler);
    }

    pub(super) fn set_completion(&mut self, handler: Arc<Handler<CompletionCall>>) {
        self.completion = Some(handler);
    }

    pub(super) fn add_method(&mut self, name: String, handler: Arc<Handler<MethodCall>>) {
        self.methods.retain(|(other, _)| *other != name);
        self.methods.push((name, handler));
    }

    pub(super) fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().map(|entry| &*entry.item)
    }

    /// Decides what becomes of a body.
    pub(super) fn receive(self: &Arc<Self>, body: Bytes, extensions: Extensions) -> Reply {
        let message = match extensions.get::<Message>() {
            Some(message) if message.is_of(&body) => message.clone(),
            _ => Message::parse(body),
        };
        match message.kind() {
            MessageKind::Batch => self.receive_batch(&message, extensions),
            _ => self.reply(message, extensions, true),
        }
    }

    // rule R4
    fn receive_batch(self: &Arc<Self>, batch: &Message, extensions: Extensions) -> Reply {
        let refused = |fault| Reply::Refused(refusal(None, fault));
        let Some(messages) = elements(batch) else {
            return refused("the array holds too many messages");
        };
        if messages.is_empty() {
            return refused("the array is empty");
        }
        let initialize = Some(method::INITIALIZE);
        if messages.iter().any(|it| it.method() == initialize) {
            return refused("`initialize` stands in an array");
        }
        let config = Arc::clone(self);
        let answer: Answering = Box::pin(async move {
            let mut answers = Vec::new();
            for message in messages {
                let answer = match config.reply(message, extensions.clone(), false) {
                    Reply::Accepted | Reply::Listen(_) => continue,
                    Reply::Answer(answer) | Reply::Plain(answer, _) | Reply::Refused(answer) => {
                        answer
                    }
                    Reply::Later(work) => work.into_answer().await,
                };
                answers.push(if answers.is_empty() { b'[' } else { b',' });
                answers.extend_from_slice(&answer);
            }
            if !answers.is_empty() {
                answers.push(b']');
            }
            answers
        });
        Reply::Later(Work::new(answer, None))
    }

    /// Decides what becomes of one message. One that stands `alone` can be answered by a stream.
    // rules R1, R3
    fn reply(&self, message: Message, extensions: Extensions, alone: bool) -> Reply {
        if !message.is_json() {
            let error = MethodError::new(
                code::PARSE_ERROR,
                "Parse error: the body is not one JSON text in UTF-8",
            );
            return Reply::Refused(answer::failure(None, &error));
        }
        let id = message.answerable_id();
        if let Some(member) = message.repeated() {
            return Reply::Refused(refusal(
                id.as_ref(),
                format_args!("`{member}` occurs twice"),
            ));
        }
        // rule R4
        if message.kind() == MessageKind::Response {
            return Reply::Accepted;
        }
        if let Some(fault) = message.fault() {
            return Reply::Refused(refusal(id.as_ref(), fault));
        }
        let (Some(id), Some(method)) = (&id, message.method()) else {
            return Reply::Accepted;
        };
        let log_level = match self.log_level_for(&message) {
            Ok(level) => level,
            Err(error) => return Reply::Answer(answer::failure(Some(id), &error)),
        };
        if message.is_retry() && method::ASKING.contains(&method) {
            if let Err(error) = Call::check_retry(&message) {
                return Reply::Answer(answer::failure(Some(id), &error));
            }
        }
        let call = |message| {
            let call = Call::new(message, extensions).with_seal(self.seal.clone());
            if alone {
                call.with_outlet(log_level)
            } else {
                call
            }
        };
        if let Some(handler) = self.method(method) {
            return later(call(message), |call| handler(MethodCall(call)));
        }
        let outcome = match method {
            method::DISCOVER => Ok(self.discover(&message)),
            method::INITIALIZE => self.initialize(&message),
            method::PING => Ok(json!({})),
            method::SET_LOG_LEVEL if self.log_level.is_some() => set_log_level(&message),
            method::TOOLS_LIST => return list(&message, id, &self.tools),
            method::TOOLS_CALL => match self.called_tool(&message) {
                Ok(handler) => {
                    let validate = self.validate.clone();
                    return later(call(message), |call| handler(ToolCall(call), validate));
                }
                Err(error) => Err(error),
            },
            method::PROMPTS_LIST if !self.prompts.is_empty() => {
                return list(&message, id, &self.prompts);
            }
            method::PROMPTS_GET if !self.prompts.is_empty() => match self.asked_prompt(&message) {
                Ok(handler) => return later(call(message), |call| handler(PromptCall(call))),
                Err(error) => Err(error),
            },
            method::RESOURCES_LIST if self.has_resources() => {
                return list(&message, id, &self.resources);
            }
            method::TEMPLATES_LIST if self.has_resources() => {
                return list(&message, id, &self.templates);
            }
            method::RESOURCES_READ if self.has_resources() => match self.read_resource(&message) {
                Ok((handler, variables)) => {
                    return later(call(message), |call| handler(ResourceCall(call, variables)));
                }
                Err(error) => Err(error),
            },
            method::COMPLETE => match self.complete(&message) {
                Ok((handler, completing)) => {
                    return later(call(message), |call| {
                        handler(CompletionCall(call, completing))
                    });
                }
                Err(error) => Err(error),
            },
            method::LISTEN if self.notifier.is_some() => match self.listen(&message, alone) {
                Ok(subscription) => return Reply::Listen(subscription),
                Err(error) => Err(error),
            },
            other => Err(method_not_found(other)),
        };
        Reply::Answer(answer::outcome(id, &outcome))
    }

    // rule R3
    fn called_tool(&self, message: &Message) -> Result<&Arc<ToolHandler>, MethodError> {
        let Some(name) = message.name() else {
            return Err(MethodError::invalid_params(
                "Invalid params: `name` is not a string",
            ));
        };
        if message.arguments().is_some_and(|it| !it.starts_with(b"{")) {
            return Err(MethodError::invalid_params(
                "Invalid params: `arguments` is not an object",
            ));
        }
        match self.tools.find(name) {
            Some(entry) => Ok(&entry.handler),
            None => Err(unknown("tool", name)),
        }
    }

    // rule R5
    fn asked_prompt(&self, message: &Message) -> Result<&Arc<Handler<PromptCall>>, MethodError> {
        let Some(name) = message.name() else {
            return Err(MethodError::invalid_params(
                "Invalid params: `name` is not a string",
            ));
        };
        let entry = self.prompts.find(name);
        let entry = entry.ok_or_else(|| unknown("prompt", name))?;
        entry.item.check(message.arguments())?;
        Ok(&entry.handler)
    }

    fn has_resources(&self) -> bool {
        !self.resources.is_empty() || !self.templates.is_empty()
    }

    /// The handler that reads a resource, and the variables of its template.
    // rule R5
    fn read_resource(
        &self,
        message: &Message,
    ) -> Result<(&Arc<Handler<ResourceCall>>, Variables), MethodError> {
        let Some(uri) = message.name() else {
            return Err(MethodError::invalid_params(
                "Invalid params: `uri` is not a string",
            ));
        };
        if let Some(entry) = self.resources.find(uri) {
            return Ok((&entry.handler, Vec::new()));
        }
        let mut templates = self.templates.iter();
        templates
            .find_map(|entry| Some((&entry.handler, entry.item.variables(uri)?)))
            .ok_or_else(|| MethodError::resource_not_found(uri))
    }

    /// The handler of completions, and what it is asked for.
    // rule R5
    fn complete(
        &self,
        message: &Message,
    ) -> Result<(&Arc<Handler<CompletionCall>>, Completing), MethodError> {
        let handler = self.completion.as_ref();
        let handler = handler.ok_or_else(|| method_not_found(method::COMPLETE))?;
        let completing = Completing::read(message)?;
        match &completing.reference {
            CompletionRef::Prompt(name) => {
                let known = self.prompts.find(name).is_some();
                if !known && self.method(method::PROMPTS_GET).is_none() {
                    return Err(unknown("prompt", name));
                }
            }
            CompletionRef::Resource(uri) => {
                let known =
                    self.templates.find(uri).is_some() || self.resources.find(uri).is_some();
                if !known && self.method(method::RESOURCES_READ).is_none() {
                    return Err(unknown("resource", uri));
                }
            }
        }
        Ok((handler, completing))
    }

    // rule R5
    fn listen(&self, message: &Message, alone: bool) -> Result<Subscription, MethodError> {
        let notifier = self.notifier.as_ref();
        let notifier = notifier.ok_or_else(|| method_not_found(method::LISTEN))?;
        if !alone {
            let fault = "a stream cannot be opened from an array";
            return Err(MethodError::invalid_request(fault));
        }
        let offer = Offer {
            tools: self.backs("tools"),
            prompts: self.backs("prompts"),
            resources: self.backs("resources"),
        };
        Subscription::new(notifier, message, offer)
    }

    /// The handler of a method that was registered by itself.
    fn method(&self, method: &str) -> Option<&Arc<Handler<MethodCall>>> {
        let mut methods = self.methods.iter();
        let (_, handler) = methods.find(|(name, _)| name == method)?;
        Some(handler)
    }

    /// The lowest level of log messages to send with the answer, if any are wanted.
    // rule R5
    fn log_level_for(&self, message: &Message) -> Result<Option<LogLevel>, MethodError> {
        let era = message.resolved().map(|(era, _)| era.kind());
        let wanted = match (message.log_level(), era) {
            (Some(level), None | Some(EraKind::Modern)) => {
                let level = LogLevel::read(level).ok_or_else(|| {
                    MethodError::invalid_params("Invalid params: the log level is unknown")
                })?;
                Some(level)
            }
            (None, Some(EraKind::Modern)) => None,
            _ => self.log_level,
        };
        Ok(wanted.filter(|_| self.log_level.is_some()))
    }

    // rule R2
    fn initialize(&self, message: &Message) -> Result<Value, MethodError> {
        let asked = message.asked_version().ok_or_else(|| {
            MethodError::invalid_params("Invalid params: `protocolVersion` is not a string")
        })?;
        // Those that the operator has added are known, but never offered.
        let eras = eras(message);
        let mut served = eras.supported();
        let known = served.find(|version| *version == asked && !MODERN_VERSIONS.contains(version));
        // What needs `subscriptions/listen` is not of this era.
        let capabilities = self.capabilities(false);
        Ok(self.introduce(json!({
            "capabilities": capabilities,
            "protocolVersion": known.unwrap_or(LEGACY_VERSIONS[0]),
            "serverInfo": self.server.to_json(),
        })))
    }

    // rule D1
    fn discover(&self, message: &Message) -> Value {
        let capabilities = self.capabilities(self.notifier.is_some());
        self.introduce(json!({
            "capabilities": capabilities,
            "supportedVersions": eras(message).supported().collect::<Value>(),
            "_meta": { meta::SERVER_INFO: self.server.to_json() },
        }))
    }

    /// Adds what the operator has to say.
    fn introduce(&self, mut result: Value) -> Value {
        if let Some(instructions) = &self.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        result
    }

    /// What a registered handler backs, and nothing else.
    // rule R1
    fn capabilities(&self, notifies: bool) -> Value {
        let mut capabilities = Map::new();
        for (name, _) in CAPABILITIES {
            if self.backs(name) {
                capabilities.insert(name.into(), capability(name, notifies));
            }
        }
        Value::Object(capabilities)
    }

    /// Whether there is a handler for the capability of this name.
    fn backs(&self, capability: &str) -> bool {
        let registered = match capability {
            "completions" => self.completion.is_some(),
            "logging" => self.log_level.is_some(),
            "prompts" => !self.prompts.is_empty(),
            "resources" => self.has_resources(),
            "tools" => !self.tools.is_empty(),
            _ => false,
        };
        let known = CAPABILITIES.iter().find(|(name, _)| *name == capability);
        let method = known.and_then(|(_, method)| *method);
        registered || method.is_some_and(|method| self.method(method).is_some())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let methods = self.methods.iter().map(|(name, _)| name);
        f.debug_struct("Config")
            .field("server", &self.server)
            .field("instructions", &self.instructions)
            .field("tools", &self.tools)
            .field("prompts", &self.prompts)
            .field("resources", &self.resources)
            .field("templates", &self.templates)
            .field("completes", &self.completion.is_some())
            .field("methods", &methods.collect::<Vec<_>>())
            .field("validates_arguments", &self.validate.is_some())
            .finish_non_exhaustive()
    }
}

/// Shows a page of a list.
fn list<T: Listed>(message: &Message, id: &[u8], list: &List<T>) -> Reply {
    match list.page(params::member(message, "cursor")) {
        Ok(page) => {
            let text = answer::encoded(id, page);
            if message.era().is_modern() {
                let result = text.len() - page.len() - 1;
                Reply::Plain(text, result)
            } else {
                Reply::Answer(text)
            }
        }
        Err(error) => Reply::Answer(answer::failure(Some(id), &error)),
    }
}

fn unknown(what: &str, name: &str) -> MethodError {
    let name = answer::quote(name);
    MethodError::invalid_params(format!("Unknown {what}: {name}"))
}

fn method_not_found(method: &str) -> MethodError {
    let method = answer::quote(method);
    MethodError::new(
        code::METHOD_NOT_FOUND,
        format!("Method not found: {method}"),
    )
}

/// The value of a capability.
fn capability(name: &str, notifies: bool) -> Value {
    match name {
        "prompts" | "tools" if notifies => json!({ "listChanged": true }),
        "resources" if notifies => json!({ "listChanged": true, "subscribe": true }),
        _ => json!({}),
    }
}

/// Lets a handler work on a call.
fn later(call: Call, handler: impl FnOnce(Call) -> Answering) -> Reply {
    let outlet = call.outlet().cloned();
    Reply::Later(Work::new(handler(call), outlet))
}

/// Takes a level of the handshake era, which nothing remembers: there are no sessions.
// rule R5
fn set_log_level(message: &Message) -> Result<Value, MethodError> {
    let level = params::member(message, "level").and_then(LogLevel::read);
    let unknown = || MethodError::invalid_params("Invalid params: the log level is unknown");
    level.map(|_| json!({})).ok_or_else(unknown)
}

/// How the layers tell the eras apart, or how they would by default.
fn eras(message: &Message) -> EraRules {
    match message.resolved() {
        Some((_, eras)) => eras.clone(),
        None => EraRules::default(),
    }
}

fn refusal(id: Option<&Bytes>, fault: impl fmt::Display) -> Vec<u8> {
    answer::failure(id.map(Bytes::as_ref), &MethodError::invalid_request(fault))
}

/// The messages in an array, unless they are too many.
fn elements(batch: &Message) -> Option<Vec<Message>> {
    let (mut messages, mut count) = (Vec::new(), 0);
    let read = Cursor::new(batch.body()).array(|cursor| {
        let value = cursor.value()?;
        count += 1;
        if count <= BATCH_LIMIT {
            let mut message = Message::parse(batch.body().slice(value.span()));
            if let Some((era, rules)) = batch.resolved() {
                message.resolve(era.clone(), rules.clone());
            }
            messages.push(message);
        }
        Ok(())
    });
    (read.is_ok() && count <= BATCH_LIMIT).then_some(messages)
}
