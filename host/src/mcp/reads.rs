//! `prompts/get`, `resources/read` and `completion/complete`: what a client reads, and no tool.

use rmcp::{
    RoleServer,
    model::{
        CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse, InputResponses,
        ReadResourceRequestParams, ReadResourceResponse, Reference as WireReference,
    },
    service::RequestContext,
};

use super::{Handler, access::Kind, convert, rates::Cost};
use crate::{
    base::Fault,
    runs::{Answer, Call, Input, Reference, Target},
};

impl Handler {
    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, Fault> {
        let target = Target::Prompt { name: request.name, arguments: request.arguments.unwrap_or_default() };
        let input = input(request.input_responses, request.request_state);
        match self.runs.call(self.read(ctx, target, input)?).await {
            Answer::Prompt(prompt) => Ok((*prompt).into()),
            Answer::InputRequired { requests, state } => Ok(convert::input_required(requests, state)?.into()),
            Answer::Error(fault) => Err(fault),
            _ => Err(convert::mixed_up()),
        }
    }

    pub(super) async fn resource(
        &self,
        request: ReadResourceRequestParams,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, Fault> {
        let input = input(request.input_responses, request.request_state);
        match self.runs.call(self.read(ctx, Target::Resource { uri: request.uri }, input)?).await {
            Answer::Resource(contents) => Ok((*contents).into()),
            Answer::InputRequired { requests, state } => Ok(convert::input_required(requests, state)?.into()),
            Answer::Error(fault) => Err(fault),
            _ => Err(convert::mixed_up()),
        }
    }

    pub(super) async fn completion(
        &self,
        request: CompleteRequestParams,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<CompleteResult, Fault> {
        let reference = match request.r#ref {
            WireReference::Prompt(prompt) => Reference::Prompt(prompt.name),
            WireReference::Resource(resource) => Reference::Template(resource.uri),
            _ => return Err(Fault::invalid("params_invalid", "There is no such kind of reference.")),
        };
        let context = request.context.and_then(|context| context.arguments).unwrap_or_default();
        let target = Target::Completion {
            reference,
            argument: request.argument.name,
            value: request.argument.value,
            context: context.into_iter().collect(),
        };
        match self.runs.call(self.read(ctx, target, Input::default())?).await {
            Answer::Completion(values) => Ok(CompleteResult::new(*values)),
            Answer::Error(fault) => Err(fault),
            _ => Err(convert::mixed_up()),
        }
    }

    /// The call for what is read. Only tools take an idempotency key.
    fn read(&self, ctx: &RequestContext<RoleServer>, target: Target, input: Input) -> Result<Call, Fault> {
        let caller = self.caller(ctx, Cost::Call)?;
        match &target {
            Target::Prompt { name, .. } => caller.access.check(Kind::Prompt, name)?,
            Target::Resource { uri } => caller.access.check(Kind::Resource, uri)?,
            Target::Completion { reference: Reference::Prompt(name), .. } => {
                caller.access.check(Kind::Prompt, name)?
            }
            Target::Completion { reference: Reference::Template(uri), .. } => {
                caller.access.check(Kind::Resource, uri)?
            }
            // `tools/call` has checked it.
            Target::Tool { .. } => {}
        }
        Ok(Call {
            principal: caller.access.principal,
            target,
            client: convert::client(ctx.client_capabilities().as_ref()),
            idempotency_key: None,
            outlet: caller.outlet,
            asks: caller.asks,
            input,
        })
    }
}

/// What a multi round-trip request brings along.
pub(super) fn input(responses: Option<InputResponses>, state: Option<String>) -> Input {
    Input { responses: responses.unwrap_or_default(), state }
}
