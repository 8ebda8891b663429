//! `completion/complete`.

use rmcp::{
    RoleServer,
    model::{CompleteRequestParams, CompleteResult, Reference as WireReference},
    service::RequestContext,
};

use super::{Handler, convert};
use crate::{
    base::Fault,
    runs::{Answer, Call, Input, Reference, Target},
};

impl Handler {
    pub(super) async fn completion(
        &self,
        request: CompleteRequestParams,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<CompleteResult, Fault> {
        let caller = Self::caller(ctx)?;
        let reference = match request.r#ref {
            WireReference::Prompt(prompt) => Reference::Prompt(prompt.name),
            WireReference::Resource(resource) => Reference::Template(resource.uri),
            _ => return Err(Fault::invalid("params_invalid", "There is no such kind of reference.")),
        };
        let context = request.context.and_then(|context| context.arguments).unwrap_or_default();
        let call = Call {
            principal: caller.principal,
            target: Target::Completion {
                reference,
                argument: request.argument.name,
                value: request.argument.value,
                context: context.into_iter().collect(),
            },
            client: convert::client(ctx.client_capabilities().as_ref()),
            idempotency_key: None,
            outlet: caller.outlet,
            asks: caller.asks,
            input: Input::default(),
        };
        match self.runs.call(call).await {
            Answer::Completion(values) => Ok(CompleteResult::new(*values)),
            Answer::Error(fault) => Err(fault),
            _ => Err(convert::mixed_up()),
        }
    }
}
