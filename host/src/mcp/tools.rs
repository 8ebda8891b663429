//! `tools/call`.

use rmcp::{
    RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CreateTaskResult},
    service::RequestContext,
};

use super::{Handler, access::Kind, convert, rates::Cost, reads};
use crate::{
    base::Fault,
    runs::{Answer, Asks, Call, Target},
};

impl Handler {
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Fault> {
        let bridged = self.is_bridge_tool(&request.name);
        let caller = self.caller(&ctx, if bridged { Cost::Poll } else { Cost::Call })?;
        if bridged {
            let arguments = request.arguments.unwrap_or_default();
            let done = self.bridge_call(&caller.access.principal, &request.name, arguments).await;
            return done.map(CallToolResponse::Complete);
        }
        caller.access.check(Kind::Tool, &request.name)?;
        let mut client = convert::client(ctx.client_capabilities().as_ref());
        // No older revision has tasks, whatever its client declares.
        client.bridge = self.bridge && !(client.tasks && matches!(caller.asks, Asks::Retry));
        let meta_key = ctx.meta.0.get("layby/idempotency-key").map(|key| match key.as_str() {
            Some(key) => Ok(key.to_owned()),
            None => Err(Fault::invalid(
                "idempotency_key_invalid",
                "_meta[\"layby/idempotency-key\"] must be a string.",
            )),
        });
        let call = Call {
            principal: caller.access.principal,
            target: Target::Tool {
                name: request.name.into_owned(),
                arguments: request.arguments.unwrap_or_default(),
            },
            client,
            idempotency_key: meta_key.transpose()?.or(caller.idempotency_key),
            outlet: caller.outlet,
            asks: caller.asks,
            input: reads::input(request.input_responses, request.request_state),
        };
        match self.runs.call(call).await {
            Answer::Result(result) => Ok(CallToolResponse::Complete(*result)),
            Answer::Task(task) if client.bridge => Ok(CallToolResponse::Complete(self.handed_out(&task))),
            Answer::Task(task) => Ok(CreateTaskResult::new(convert::task(&task)).into()),
            Answer::InputRequired { requests, state } => Ok(convert::input_required(requests, state)?.into()),
            Answer::Error(fault) => Err(fault),
            Answer::Prompt(_) | Answer::Resource(_) | Answer::Completion(_) => Err(convert::mixed_up()),
        }
    }
}
