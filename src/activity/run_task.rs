//! `Elsa.RunTask`: waits until a program reports the result of a task.

use serde_json::json;

use super::{
    Activity, ActivityContext, BookmarkRequest, Descriptor, Fault, InputDescriptor, OutputDescriptor, Resumption, Step,
};

/// The type of the activity, which is the name of its bookmarks.
pub const RUN_TASK: &str = "Elsa.RunTask";

/// The input in which Elsa passes the result of a task to the instance that it resumes.
pub const TASK_RESULT_INPUT: &str = "RunTaskInput";

#[derive(Debug)]
pub(super) struct RunTask;

impl Activity for RunTask {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(RUN_TASK)
            .describe(
                "Primitives",
                "Waits until a program has done a task and reports its result.",
            )
            .input(InputDescriptor::new("TaskName", "String").describe("The name of the task."))
            .input(
                InputDescriptor::new("Payload", "ObjectDictionary").describe("What the program needs to do the task."),
            )
            .output(OutputDescriptor::new("TaskId", "String").describe("The id under which the task is completed."))
            .output(OutputDescriptor::new("Result", "Object").describe("The result of the task."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let name = context.text("TaskName").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Fault::new("The task has no name: the input TaskName is empty"))?;
        // The same in each repetition of the burst.
        let id = context.execution_id().as_str().to_owned();
        let payload = context.input("Payload").clone();
        context.set_output("TaskId", id.clone());
        context.bookmark(BookmarkRequest::new(
            json!({"taskId": id, "taskName": name, "payload": payload}),
        ));
        Ok(Step::Wait)
    }

    async fn resumed(&self, context: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        let result = resumption.input.get(TASK_RESULT_INPUT).cloned();
        context.set_output("Result", result.or(resumption.payload).unwrap_or_default());
        Ok(Step::Done)
    }
}
