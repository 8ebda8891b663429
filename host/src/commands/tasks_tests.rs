#![allow(clippy::unwrap_used)]

use super::*;
use crate::{base::TaskId, store::QuestionKind};

fn form(key: &str) -> Question {
    let request = json!({"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema":
        {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}}});
    Question { key: key.into(), round: 0, kind: QuestionKind::Form, request: request.into(), answer: None }
}

fn answer(accept: Option<&str>, key: Option<&str>) -> Answer {
    Answer {
        id: TaskId::new().to_string(),
        key: key.map(str::to_owned),
        accept: accept.map(str::to_owned),
        decline: accept.is_none(),
        dismiss: false,
    }
}

#[test]
fn options_give_one_answer() {
    let (a, b) = (form("a"), form("b"));
    let accepted = given(&[&a], &answer(Some(r#"{"confirm": true}"#), None)).unwrap();
    assert_eq!(accepted, ("a".to_owned(), json!({"action": "accept", "content": {"confirm": true}})));
    let declined = given(&[&a, &b], &answer(None, Some("b"))).unwrap();
    assert_eq!(declined, ("b".to_owned(), json!({"action": "decline"})));
}

#[test]
fn an_answer_that_does_not_fit_says_why() {
    let (a, b) = (form("a"), form("b"));
    assert_eq!(given(&[&a, &b], &answer(None, None)).unwrap_err().code, "key_needed");
    assert_eq!(given(&[&a], &answer(None, Some("z"))).unwrap_err().code, "question_unknown");
    assert_eq!(given(&[&a], &answer(Some("{"), None)).unwrap_err().code, "accept_invalid");
    assert_eq!(given(&[&a], &answer(Some("{}"), None)).unwrap_err().code, "answer_invalid");
}

#[test]
fn ages_have_one_unit() {
    let at =
        |seconds: u64| age(UnixMillis(1_000_000_000_000), UnixMillis(1_000_000_000_000 - seconds * 1000));
    assert_eq!((at(5).as_str(), at(125).as_str()), ("5s ago", "2m ago"));
    assert_eq!((at(7200).as_str(), at(259_200).as_str()), ("2h ago", "3d ago"));
}

#[test]
fn only_open_questions_of_a_waiting_task_count() {
    let mut answered = form("b");
    answered.answer = Some(crate::store::Answer::Declined);
    let mut task =
        Task { status: Status::InputRequired, questions: vec![form("a"), answered], ..Task::blank() };
    assert_eq!(open_questions(&task).map(|q| q.key.as_str()).collect::<Vec<_>>(), ["a"]);
    task.cancel_requested = Some(UnixMillis(1));
    assert_eq!(word(&task), "cancelling");
    task.status = Status::Cancelled;
    assert_eq!(open_questions(&task).count(), 0);
    assert_eq!(word(&task), "cancelled");
}
