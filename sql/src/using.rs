//! `SELECT *` over `JOIN … USING (k)`: Spark shows `k` first and once.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, Select, SelectItem,
    TableFactor,
};

/// Spells the star out for one inner or left join with USING; other joins keep the planner's order.
pub(super) fn using_columns_first(select: &mut Select) -> Result<()> {
    let [from] = select.from.as_slice() else {
        return Ok(());
    };
    let [join] = from.joins.as_slice() else {
        return Ok(());
    };
    let (Some(left), Some(right)) = (name_of(&from.relation), name_of(&join.relation)) else {
        return Ok(());
    };
    let columns = using(join);
    let Some(at) = select
        .projection
        .iter()
        .position(|i| matches!(i, SelectItem::Wildcard(_)))
    else {
        return Ok(());
    };
    let [first, rest @ ..] = columns.as_slice() else {
        return Ok(());
    };
    let mut items: Vec<SelectItem> = columns
        .iter()
        .map(|c| SelectItem::ExprWithAlias {
            expr: Expr::CompoundIdentifier(vec![left.clone(), c.clone()]),
            alias: c.clone(),
        })
        .collect();
    for relation in [&left, &right] {
        let mut star = super::parser(&format!("`{}`.*", relation.value))?.parse_select_item()?;
        if let SelectItem::QualifiedWildcard(_, options) = &mut star {
            options.opt_except = Some(ExceptSelectItem {
                first_element: first.clone(),
                additional_elements: rest.to_vec(),
            });
        }
        items.push(star);
    }
    select.projection.splice(at..=at, items);
    Ok(())
}

/// The name that qualifies the columns of a relation.
fn name_of(relation: &TableFactor) -> Option<Ident> {
    match relation {
        TableFactor::Table { name, alias, .. } => match alias {
            Some(alias) => Some(alias.name.clone()),
            None => name.0.last()?.as_ident().cloned(),
        },
        TableFactor::Derived { alias, .. } => alias.as_ref().map(|a| a.name.clone()),
        _ => None,
    }
}

fn using(join: &Join) -> Vec<Ident> {
    let constraint = match &join.join_operator {
        JoinOperator::Join(c)
        | JoinOperator::Inner(c)
        | JoinOperator::Left(c)
        | JoinOperator::LeftOuter(c) => c,
        _ => return vec![],
    };
    match constraint {
        JoinConstraint::Using(names) => names
            .iter()
            .filter_map(|n| n.0.last()?.as_ident().cloned())
            .collect(),
        _ => vec![],
    }
}
