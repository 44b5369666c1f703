//! The one error type of the engine: what was wrong, where, whose fault it is, and whether trying again can help.
//!
//! Fault and retry are fields, not prose, because the supervisor decides on them; the place (operator, subtask, position) is
//! added once at the boundary of a task, so that operators and connectors only say what was wrong.

use std::fmt;
use std::sync::Arc;

/// Result of everything that can fail in the engine.
pub type Result<T, E = WeirError> = std::result::Result<T, E>;

/// Who has to act for the error to go away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A wrong option, name or value given by the program that uses the engine.
    Config,
    /// The query is not allowed: the plan, output mode or checkpoint does not permit it.
    Plan,
    /// The data does not fit the query (bad record under a failing policy, overflow, division by zero).
    Data,
    /// Something outside the process failed and may come back: a file system, a broker, a database.
    External,
    /// Durable files are damaged or contradict each other.
    Checkpoint,
    /// Another run owns the checkpoint.
    Conflict,
    /// A defect: a panic in an operator or a broken invariant of the engine.
    Internal,
    /// Not a cause: this part ended because another part of its generation did.
    Killed,
    /// An injected crash of a test; never restarted.
    Crash,
}

/// An error of the engine. Cheap to clone: handles and listeners share it.
#[derive(Clone)]
pub struct WeirError(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    fault: Fault,
    condition: Option<String>,
    message: String,
    operator: Option<String>,
    subtask: Option<usize>,
    position: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl WeirError {
    /// An error of this fault with one lower-case phrase.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            fault,
            condition: None,
            message: message.into(),
            operator: None,
            subtask: None,
            position: None,
            source: None,
        }))
    }

    /// A wrong option or name; say what is allowed.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Fault::Config, message)
    }

    /// An option with a value that is not allowed.
    pub fn invalid_option(option: &str, value: &str, allowed: &str) -> Self {
        Self::config(format!(
            "option '{option}' has the value '{value}', allowed: {allowed}"
        ))
    }

    /// An option nobody knows, with the list of those that exist.
    pub fn unknown_option(owner: &str, option: &str, known: &[&str]) -> Self {
        Self::config(format!(
            "{owner} has no option '{option}', known options: {}",
            known.join(", ")
        ))
    }

    /// A query that may not run.
    pub fn plan(message: impl Into<String>) -> Self {
        Self::new(Fault::Plan, message)
    }

    /// Data that does not fit the query.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(Fault::Data, message)
    }

    /// A failure outside the process.
    pub fn external(message: impl Into<String>) -> Self {
        Self::new(Fault::External, message)
    }

    /// A defect of the engine or of user code run by it.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Fault::Internal, message)
    }

    /// Ended because another part of the generation ended.
    pub fn killed(what: &str) -> Self {
        Self::new(
            Fault::Killed,
            format!("{what} ended because its generation was stopped"),
        )
    }

    fn edit(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.edit(|inner| inner.source = Some(Arc::new(source)))
    }

    /// Adds the condition name users of Spark know, such as `DIVIDE_BY_ZERO`.
    #[must_use]
    pub fn with_condition(self, condition: impl Into<String>) -> Self {
        self.edit(|inner| inner.condition = Some(condition.into()))
    }

    /// Adds operator and subtask, unless an inner boundary has done so.
    #[must_use]
    pub fn at(self, operator: &str, subtask: usize) -> Self {
        if self.0.operator.is_some() {
            return self;
        }
        self.edit(|inner| {
            inner.operator = Some(operator.to_owned());
            inner.subtask = Some(subtask);
        })
    }

    /// Adds the position in the input (file and line, topic-partition-offset), unless it is known.
    #[must_use]
    pub fn at_position(self, position: impl Into<String>) -> Self {
        if self.0.position.is_some() {
            return self;
        }
        self.edit(|inner| inner.position = Some(position.into()))
    }

    /// Adds the place in the source, before what is known of the place in a batch.
    #[must_use]
    pub fn found_at(self, place: impl Into<String>) -> Self {
        let place = place.into();
        self.edit(|inner| {
            inner.position = Some(match inner.position.take() {
                Some(position) => format!("{place}, {position}"),
                None => place,
            });
        })
    }

    /// Who has to act.
    pub fn fault(&self) -> Fault {
        self.0.fault
    }

    /// The condition name, where the error has one.
    pub fn condition(&self) -> Option<&str> {
        self.0.condition.as_deref()
    }

    /// What was wrong, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Id of the operator that failed.
    pub fn operator(&self) -> Option<&str> {
        self.0.operator.as_deref()
    }

    /// Index of the subtask that failed.
    pub fn subtask(&self) -> Option<usize> {
        self.0.subtask
    }

    /// Where in the input it failed.
    pub fn position(&self) -> Option<&str> {
        self.0.position.as_deref()
    }

    /// True where trying again later can help without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        self.0.fault == Fault::External
    }
}

impl fmt::Display for WeirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(condition) = &inner.condition {
            write!(f, "[{condition}] ")?;
        }
        f.write_str(&inner.message)?;
        if let Some(operator) = &inner.operator {
            write!(f, " (operator '{operator}'")?;
            if let Some(subtask) = inner.subtask {
                write!(f, ", subtask {subtask}")?;
            }
            f.write_str(")")?;
        }
        if let Some(position) = &inner.position {
            write!(f, " at {position}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for WeirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.fault)?;
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            write!(f, "; caused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for WeirError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|e| e as &(dyn std::error::Error + 'static))
    }
}

impl From<arrow::error::ArrowError> for WeirError {
    fn from(error: arrow::error::ArrowError) -> Self {
        WeirError::data(error.to_string()).with_source(error)
    }
}

impl From<weir_state::StateError> for WeirError {
    fn from(error: weir_state::StateError) -> Self {
        use weir_state::StateError as State;
        // An error of the engine that passed through the state's files.
        if let State::Io { source, .. } = &error
            && let Some(inner) = source.get_ref().and_then(|e| e.downcast_ref::<WeirError>())
        {
            return inner.clone();
        }
        let fault = match &error {
            State::Io { .. } | State::Store { .. } | State::Files { .. } => Fault::External,
            State::InvalidLocation { .. }
            | State::UnsupportedScheme { .. }
            | State::InvalidSetting { .. }
            | State::NoBucket { .. }
            | State::NoCredentials { .. } => Fault::Config,
            State::CheckpointInUse { .. }
            | State::LeaseLost { .. }
            | State::ConcurrentWriter { .. } => Fault::Conflict,
            State::WrongTable { .. } => Fault::Internal,
            _ => Fault::Checkpoint,
        };
        WeirError::new(fault, error.to_string()).with_source(error)
    }
}

/// Of several errors of one generation, the one to show: the first that is a cause and not a consequence.
pub fn root_cause(errors: Vec<WeirError>) -> Option<WeirError> {
    let mut killed = None;
    for error in errors {
        if error.fault() != Fault::Killed {
            return Some(error);
        }
        killed.get_or_insert(error);
    }
    killed
}

/// Text of a panic payload.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is not text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_condition_operator_and_position() {
        let error = WeirError::data("division by zero")
            .with_condition("DIVIDE_BY_ZERO")
            .at("project", 1)
            .at("outer", 0)
            .at_position("in/a.json:7");
        assert_eq!(
            error.to_string(),
            "[DIVIDE_BY_ZERO] division by zero (operator 'project', subtask 1) at in/a.json:7"
        );
        let error = WeirError::data("bad")
            .at_position("row 2")
            .found_at("t-0-9");
        assert_eq!(error.position(), Some("t-0-9, row 2"));
        let error = WeirError::data("bad").found_at("t-0-9");
        assert_eq!(error.position(), Some("t-0-9"));
    }

    #[test]
    fn error_of_the_engine_is_the_same_after_it_passed_through_the_state() {
        let crash = WeirError::new(Fault::Crash, "injected");
        let passed = weir_state::StateError::Io {
            action: "commit",
            path: "state".to_owned(),
            source: std::io::Error::other(crash),
        };
        assert_eq!(WeirError::from(passed).fault(), Fault::Crash);
    }

    #[test]
    fn root_cause_prefers_a_cause_over_a_consequence() {
        let errors = vec![
            WeirError::killed("edge"),
            WeirError::data("bad row"),
            WeirError::internal("late"),
        ];
        assert_eq!(root_cause(errors).expect("one").message(), "bad row");
        assert_eq!(
            root_cause(vec![WeirError::killed("edge")])
                .expect("one")
                .fault(),
            Fault::Killed
        );
        assert!(root_cause(vec![]).is_none());
    }
}
