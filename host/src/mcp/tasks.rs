//! `tasks/get`, `tasks/update`, `tasks/cancel` (SEP-2663).

use rmcp::{
    RoleServer,
    model::{CancelTaskParams, GetTaskParams, GetTaskResult, UpdateTaskParams},
    service::RequestContext,
};

use super::{Handler, convert, rates::Cost};
use crate::base::Fault;

impl Handler {
    pub(super) async fn task(
        &self,
        request: GetTaskParams,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, Fault> {
        let caller = self.caller(ctx, Cost::Poll)?;
        let task = self.tasks.get(&caller.access.principal, &request.task_id).await?;
        convert::detailed(task).map(GetTaskResult::new)
    }

    pub(super) async fn update(
        &self,
        request: UpdateTaskParams,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<(), Fault> {
        let caller = self.caller(ctx, Cost::Poll)?;
        self.tasks.update(&caller.access.principal, &request.task_id, request.input_responses).await
    }

    pub(super) async fn cancel(
        &self,
        request: CancelTaskParams,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<(), Fault> {
        let caller = self.caller(ctx, Cost::Poll)?;
        self.tasks.cancel(&caller.access.principal, &request.task_id).await
    }
}
