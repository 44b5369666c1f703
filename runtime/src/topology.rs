//! The dataflow as code: sources, operators and sinks with stable ids, connected by partitioned edges. What the planner of the
//! DataFrame layer emits is what a user can write by hand here.

mod explain;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use weir_state::{Fingerprint, TableKind, TableSpec};

use crate::error::{Result, WeirError};
use crate::message::ChangelogMode;
use crate::operator::OperatorSpec;
use crate::partitioner::Partitioning;
use crate::sink::{OutputMode, Sink};
use crate::source::Source;

/// A stream inside a topology under construction: an output of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream {
    pub(crate) node: usize,
    /// The late rows of the node instead of its ordinary output.
    pub(crate) late: bool,
}

/// A stream and how its rows are distributed on the way to the next node.
#[derive(Debug, Clone)]
pub struct Input {
    pub(crate) node: usize,
    pub(crate) late: bool,
    pub(crate) partitioning: Partitioning,
}

impl Input {
    /// What charts write at the edge.
    fn label(&self) -> String {
        let late = if self.late { "late rows, " } else { "" };
        format!("{late}{}", self.partitioning)
    }
}

impl From<Stream> for Input {
    fn from(stream: Stream) -> Self {
        stream.partitioned(Partitioning::Forward)
    }
}

impl Stream {
    /// This stream, distributed so that equal keys meet.
    pub fn key_by<I, S>(self, columns: I) -> Input
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        self.partitioned(Partitioning::Hash(
            columns.into_iter().map(Into::into).collect(),
        ))
    }

    /// This stream, distributed in another way.
    pub fn partitioned(self, partitioning: Partitioning) -> Input {
        Input {
            node: self.node,
            late: self.late,
            partitioning,
        }
    }
}

/// A source shared by the planning side and the subtasks; locked only while an epoch is planned.
pub(crate) type SharedSource = Arc<tokio::sync::Mutex<Box<dyn Source>>>;

#[derive(Clone)]
pub(crate) enum NodeKind {
    Source {
        source: SharedSource,
        description: String,
        fingerprint: Fingerprint,
        max_parallelism: Option<usize>,
    },
    Operator(OperatorSpec),
    Sink(Arc<dyn Sink>),
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) uid: String,
    pub(crate) kind: NodeKind,
    pub(crate) inputs: Vec<Input>,
    pub(crate) schema: SchemaRef,
    pub(crate) changelog: ChangelogMode,
    pub(crate) parallelism: Option<usize>,
}

/// A dataflow under construction. Mistakes are collected and reported together by [`TopologyBuilder::build`].
#[derive(Default)]
pub struct TopologyBuilder {
    nodes: Vec<Node>,
    mode: OutputMode,
    key_columns: Vec<String>,
    problems: Vec<String>,
}

impl TopologyBuilder {
    /// Adds a source under a stable id.
    pub fn source(&mut self, uid: impl Into<String>, source: impl Source + 'static) -> Stream {
        self.boxed_source(uid, Box::new(source))
    }

    /// Adds a source that is already boxed.
    pub fn boxed_source(&mut self, uid: impl Into<String>, source: Box<dyn Source>) -> Stream {
        let schema = source.schema();
        let kind = NodeKind::Source {
            description: source.description(),
            fingerprint: source.fingerprint(),
            max_parallelism: source.max_parallelism(),
            source: Arc::new(tokio::sync::Mutex::new(source)),
        };
        self.add(
            uid.into(),
            kind,
            Vec::new(),
            schema,
            ChangelogMode::AppendOnly,
        )
    }

    /// Adds an operator over one or more inputs; the operator sees them numbered in this order.
    pub fn operator<I>(&mut self, uid: impl Into<String>, inputs: I, spec: OperatorSpec) -> Stream
    where
        I: IntoIterator,
        I::Item: Into<Input>,
    {
        let uid = uid.into();
        let inputs: Vec<Input> = inputs.into_iter().map(Into::into).collect();
        let schemas: Vec<_> = inputs
            .iter()
            .map(|input| output_schema(&self.nodes, input))
            .collect();
        let schema = spec.schema(&schemas).unwrap_or_else(|error| {
            self.problems.push(format!("operator '{uid}': {error}"));
            Arc::new(arrow::datatypes::Schema::empty())
        });
        let changed = inputs
            .iter()
            .any(|input| output_changelog(&self.nodes, input) == ChangelogMode::Changelog);
        let changelog = if changed {
            ChangelogMode::Changelog
        } else {
            spec.changelog
        };
        self.add(uid, NodeKind::Operator(spec), inputs, schema, changelog)
    }

    /// Adds a sink at the end of a stream.
    pub fn sink(&mut self, uid: impl Into<String>, input: impl Into<Input>, sink: Arc<dyn Sink>) {
        let input = input.into();
        let schema = output_schema(&self.nodes, &input);
        let changelog = output_changelog(&self.nodes, &input);
        self.add(
            uid.into(),
            NodeKind::Sink(sink),
            vec![input],
            schema,
            changelog,
        );
    }

    /// Sets how many subtasks the node that made this stream has; otherwise the query's parallelism applies.
    pub fn parallelism(&mut self, stream: Stream, subtasks: usize) {
        if subtasks == 0 {
            self.problems.push(format!(
                "node '{}': parallelism 0, allowed: 1 or more",
                self.nodes[stream.node].uid
            ));
        }
        self.nodes[stream.node].parallelism = Some(subtasks.max(1));
    }

    /// Sets which rows an epoch hands to the sinks; `Append` if never called.
    pub fn output_mode(&mut self, mode: OutputMode) {
        self.mode = mode;
    }

    /// Names the columns that together tell the rows of the result apart, by which a sink can upsert in output mode update.
    pub fn key_columns(&mut self, columns: Vec<String>) {
        self.key_columns = columns;
    }

    /// Schema of a stream.
    pub fn schema(&self, stream: Stream) -> SchemaRef {
        output_schema(&self.nodes, &stream.into())
    }

    /// The rows the operator that made `stream` drops as late, as they came in: a second output, with the columns of the operator's
    /// first input, for another sink or further operators.
    pub fn late_output(&mut self, stream: Stream) -> Stream {
        let node = &self.nodes[stream.node];
        if !matches!(node.kind, NodeKind::Operator(_)) || node.inputs.is_empty() {
            self.problems.push(format!(
                "'{}' has no late rows: only operators have",
                node.uid
            ));
            return stream;
        }
        Stream {
            node: stream.node,
            late: true,
        }
    }

    fn add(
        &mut self,
        uid: String,
        kind: NodeKind,
        inputs: Vec<Input>,
        schema: SchemaRef,
        changelog: ChangelogMode,
    ) -> Stream {
        self.nodes.push(Node {
            uid,
            kind,
            inputs,
            schema,
            changelog,
            parallelism: None,
        });
        Stream {
            node: self.nodes.len() - 1,
            late: false,
        }
    }

    /// Checks the dataflow.
    ///
    /// # Errors
    /// Lists every problem: duplicate ids, no source or sink, outputs nobody reads, sinks that cannot take the output mode or a
    /// changelog, key columns that do not exist.
    pub fn build(mut self) -> Result<Topology> {
        self.check_ids();
        self.check_ends();
        self.check_edges();
        if !self.problems.is_empty() {
            return Err(WeirError::plan(self.problems.join("; ")));
        }
        Ok(Topology {
            nodes: self.nodes,
            mode: self.mode,
            key_columns: self.key_columns,
        })
    }

    fn check_ids(&mut self) {
        let mut seen = BTreeSet::new();
        for node in &self.nodes {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if node.uid.is_empty() || node.uid.starts_with('.') || !node.uid.chars().all(allowed) {
                self.problems.push(format!(
                    "id '{}' is not allowed: letters, digits, '_', '-' and '.'",
                    node.uid
                ));
            }
            if !seen.insert(node.uid.as_str()) {
                self.problems
                    .push(format!("id '{}' is used twice", node.uid));
            }
        }
    }

    fn check_ends(&mut self) {
        let count = |wanted: fn(&NodeKind) -> bool| {
            self.nodes.iter().filter(|node| wanted(&node.kind)).count()
        };
        if count(|kind| matches!(kind, NodeKind::Source { .. })) == 0 {
            self.problems.push("there is no source".to_owned());
        }
        if count(|kind| matches!(kind, NodeKind::Sink(_))) == 0 {
            self.problems.push("there is no sink".to_owned());
        }
        let read: BTreeSet<usize> = self
            .nodes
            .iter()
            .flat_map(|node| node.inputs.iter())
            .filter(|input| !input.late)
            .map(|input| input.node)
            .collect();
        for (index, node) in self.nodes.iter().enumerate() {
            if !matches!(node.kind, NodeKind::Sink(_)) && !read.contains(&index) {
                self.problems
                    .push(format!("nobody reads the output of '{}'", node.uid));
            }
            if let NodeKind::Operator(_) = node.kind
                && node.inputs.is_empty()
            {
                self.problems
                    .push(format!("operator '{}' has no input", node.uid));
            }
        }
    }

    fn check_edges(&mut self) {
        for node in &self.nodes {
            for input in &node.inputs {
                let from = &self.nodes[input.node];
                let schema = output_schema(&self.nodes, input);
                if let Err(error) =
                    crate::partitioner::Partitioner::new(&input.partitioning, &schema, 0, 1)
                {
                    self.problems.push(format!(
                        "edge '{}' to '{}': {}",
                        from.uid,
                        node.uid,
                        error.message()
                    ));
                }
            }
            let NodeKind::Sink(sink) = &node.kind else {
                continue;
            };
            if !sink.supports(self.mode) {
                self.problems.push(format!(
                    "sink '{}' ({}) does not take output mode {}",
                    node.uid,
                    sink.description(),
                    self.mode
                ));
            }
            for key in &self.key_columns {
                if node.schema.column_with_name(key).is_none() {
                    self.problems.push(format!(
                        "sink '{}' gets no column '{key}', which is named as a key of the result",
                        node.uid
                    ));
                }
            }
            if node.changelog == ChangelogMode::Changelog && self.mode == OutputMode::Append {
                self.problems.push(format!(
                    "sink '{}' gets changes of earlier rows, which output mode append cannot hold",
                    node.uid
                ));
            }
        }
    }
}

/// Columns of the output an input reads.
pub(crate) fn output_schema(nodes: &[Node], input: &Input) -> SchemaRef {
    let node = &nodes[input.node];
    match node.inputs.first() {
        Some(first) if input.late => output_schema(nodes, first),
        _ => Arc::clone(&node.schema),
    }
}

/// Whether the output an input reads changes earlier rows.
fn output_changelog(nodes: &[Node], input: &Input) -> ChangelogMode {
    let node = &nodes[input.node];
    match node.inputs.first() {
        Some(first) if input.late => output_changelog(nodes, first),
        _ => node.changelog,
    }
}

/// A checked dataflow, ready to run. Can be run again after a restart.
#[derive(Clone)]
pub struct Topology {
    pub(crate) nodes: Vec<Node>,
    pub(crate) mode: OutputMode,
    pub(crate) key_columns: Vec<String>,
}

impl Topology {
    /// Starts an empty dataflow.
    pub fn builder() -> TopologyBuilder {
        TopologyBuilder::default()
    }

    /// Which rows an epoch hands to the sinks.
    pub fn output_mode(&self) -> OutputMode {
        self.mode
    }

    /// Columns that together tell the rows of the result apart; none if that is not known.
    pub fn key_columns(&self) -> &[String] {
        &self.key_columns
    }

    /// What each node is, for the checkpoint: by id, kind and the parameters that decide what its state or offsets mean.
    pub fn fingerprints(&self) -> BTreeMap<String, Fingerprint> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .map(|(index, node)| (node.uid.clone(), self.fingerprint(index)))
            .collect()
    }

    /// What a node is. Which rows are late and when state goes away follows from the watermarks below a stateful operator.
    fn fingerprint(&self, index: usize) -> Fingerprint {
        let node = &self.nodes[index];
        let fingerprint = node.fingerprint();
        match &node.kind {
            NodeKind::Operator(spec) if forgets_by_time(spec) => {
                let mut watermarks = BTreeSet::new();
                self.watermarks(index, &mut watermarks);
                if watermarks.is_empty() {
                    return fingerprint;
                }
                let all: Vec<String> = watermarks.into_iter().collect();
                fingerprint.param("watermark", all.join("; "))
            }
            _ => fingerprint,
        }
    }

    /// The watermarks that a node's input is under, by their parameters.
    fn watermarks(&self, index: usize, found: &mut BTreeSet<String>) {
        for input in &self.nodes[index].inputs {
            if let NodeKind::Operator(spec) = &self.nodes[input.node].kind
                && spec.event_time
            {
                let params = spec.params.iter();
                let params: Vec<String> = params
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect();
                found.insert(params.join(", "));
            }
            self.watermarks(input.node, found);
        }
    }

    /// The first sink that would lose or double rows without a durable checkpoint, by its description.
    pub fn needs_checkpoint(&self) -> Option<String> {
        self.nodes.iter().find_map(|node| match &node.kind {
            NodeKind::Sink(sink) if sink.needs_checkpoint() => Some(sink.description()),
            _ => None,
        })
    }
}

impl Node {
    fn fingerprint(&self) -> Fingerprint {
        match &self.kind {
            NodeKind::Source { fingerprint, .. } => fingerprint.clone(),
            NodeKind::Operator(spec) => Fingerprint {
                kind: spec.kind.clone(),
                params: spec.params.clone(),
                stateful: spec.stateful,
            },
            NodeKind::Sink(sink) => sink.fingerprint(),
        }
    }
}

/// True if what an operator keeps goes away as time passes.
fn forgets_by_time(spec: &OperatorSpec) -> bool {
    let keyed = |table: &TableSpec| table.kind == TableKind::Keyed;
    spec.watermark_epochs && !spec.tables.iter().all(keyed)
}
