//! A topology as text and as drawings.

use std::fmt::{Arguments, Write as _};

use super::{Node, NodeKind, Topology};

impl Topology {
    /// One line per node: id, what it is, and from where it reads.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            let inputs: Vec<_> = node
                .inputs
                .iter()
                .map(|input| {
                    let late = if input.late { "late rows of " } else { "" };
                    let from = &self.nodes[input.node].uid;
                    format!("{late}{from} by {}", input.partitioning)
                })
                .collect();
            let from = if inputs.is_empty() {
                String::new()
            } else {
                format!(" <- {}", inputs.join(", "))
            };
            line(
                &mut text,
                format_args!("{}: {}{from}", node.uid, node.label()),
            );
        }
        text
    }

    /// The dataflow as a Mermaid flow chart.
    pub fn to_mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        for (index, node) in self.nodes.iter().enumerate() {
            let label = format!("{}: {}", node.uid, node.label()).replace('"', "#quot;");
            line(&mut text, format_args!("  n{index}[\"{label}\"]"));
            for input in &node.inputs {
                line(
                    &mut text,
                    format_args!("  n{} -->|{}| n{index}", input.node, input.label()),
                );
            }
        }
        text
    }

    /// The dataflow in Graphviz' DOT language.
    pub fn to_dot(&self) -> String {
        let mut text = String::from("digraph topology {\n  rankdir=LR;\n");
        for (index, node) in self.nodes.iter().enumerate() {
            let label = format!("{}: {}", node.uid, node.label());
            line(
                &mut text,
                format_args!("  n{index} [shape=box, label={label:?}];"),
            );
            for input in &node.inputs {
                let (from, label) = (input.node, input.label());
                line(
                    &mut text,
                    format_args!("  n{from} -> n{index} [label={label:?}];"),
                );
            }
        }
        text.push_str("}\n");
        text
    }
}

impl Node {
    fn label(&self) -> String {
        match &self.kind {
            NodeKind::Source { description, .. } => description.clone(),
            NodeKind::Operator(spec) if spec.detail.is_empty() => spec.kind.clone(),
            NodeKind::Operator(spec) => format!("{} [{}]", spec.kind, spec.detail),
            NodeKind::Sink(sink) => format!("{}, {}", sink.description(), sink.delivery()),
        }
    }
}

/// Appends a line.
fn line(text: &mut String, arguments: Arguments<'_>) {
    writeln!(text, "{arguments}").expect("invariant: writing to a String cannot fail");
}
