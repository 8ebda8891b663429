//! `resources/read`.

use rmcp::{
    RoleServer,
    model::{ReadResourceRequestParams, ReadResourceResponse},
    service::RequestContext,
};

use super::{Handler, convert};
use crate::{
    base::Fault,
    runs::{Answer, Call, Input, Target},
};

impl Handler {
    pub(super) async fn resource(
        &self,
        request: ReadResourceRequestParams,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, Fault> {
        let caller = Self::caller(ctx)?;
        let call = Call {
            principal: caller.principal,
            target: Target::Resource { uri: request.uri },
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
            Answer::Resource(contents) => Ok((*contents).into()),
            Answer::InputRequired { requests, state } => Ok(convert::input_required(requests, state)?.into()),
            Answer::Error(fault) => Err(fault),
            _ => Err(convert::mixed_up()),
        }
    }
}
