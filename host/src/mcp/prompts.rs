//! `prompts/get`.

use rmcp::{
    RoleServer,
    model::{GetPromptRequestParams, GetPromptResponse},
    service::RequestContext,
};

use super::{Handler, convert};
use crate::{
    base::Fault,
    runs::{Answer, Call, Input, Target},
};

impl Handler {
    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, Fault> {
        let caller = Self::caller(ctx)?;
        let call = Call {
            principal: caller.principal,
            target: Target::Prompt { name: request.name, arguments: request.arguments.unwrap_or_default() },
            client: convert::client(ctx.client_capabilities().as_ref()),
            idempotency_key: None,
            outlet: caller.outlet,
            asks: caller.asks,
            input: Input {
                responses: request.input_responses.unwrap_or_default(),
                state: request.request_state,
            },
        };
        match self.runs.call(call).await {
            Answer::Prompt(prompt) => Ok((*prompt).into()),
            Answer::InputRequired { requests, state } => Ok(convert::input_required(requests, state)?.into()),
            Answer::Error(fault) => Err(fault),
            _ => Err(convert::mixed_up()),
        }
    }
}
