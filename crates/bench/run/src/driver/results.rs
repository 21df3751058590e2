//! From measurements to the results document.

use tdekit_bench_report::{
    Class, Experiment, Probe, ProbeKind, Report, Results, Run, headline_classes,
};

use super::classes::{self, Task, Work, checkpoint_id};
use super::ground::Measured;
use super::prepare::Prepared;
use super::share;
use crate::job::Operation;

/// Returns the report of the sides, their classes and their blocks.
pub(super) fn report(prepared: &Prepared, brought: &[Class], runs: Vec<Run>) -> Report {
    let sides = prepared.sides.iter().map(|side| side.side.clone()).collect();
    let cells = ordered_classes(prepared, brought, &runs);
    Report { cells, runs, ..Report::new(Experiment::Embedded, sides) }
}

/// Adds the measurements on the sides to the results.
pub(super) fn add_sides(
    results: &mut Results,
    prepared: Prepared,
    brought: &[Class],
    measured: Measured,
) {
    let mut report = report(&prepared, brought, measured.runs);
    report.probes = measured.probes;
    report.probes.extend(prepared.file_bytes.iter().map(|(side, bytes)| Probe {
        kind: ProbeKind::FileBytes,
        side: side.clone(),
        restart: 0,
        value: *bytes,
    }));
    report.warm_up = measured.warm_up;
    for class in &report.cells {
        for side in &report.sides {
            let found = measured.latencies.get(&(class.id.clone(), side.id.clone()));
            report.latencies.extend(found.and_then(|found| found.report(&class.id, &side.id)));
        }
    }
    report.driver = share::shares(&prepared, &report.runs);
    report.statements = prepared.statements;
    results.settings.page_size_bytes = prepared.plain.described.page_size_bytes;
    results.settings.rows = prepared.generated_rows;
    results.environment.instructions = prepared.instructions;
    results.subject = prepared.plain.described;
    results.embedded = Some(report);
}

/// Returns the classes in the order of the report; secondary ones only if they were measured, and
/// those created by an order after the run's own mixes.
pub(super) fn ordered_classes(prepared: &Prepared, brought: &[Class], runs: &[Run]) -> Vec<Class> {
    let measured = |class: &Class| runs.iter().any(|run| run.cell == class.id);
    let mut classes = Vec::new();
    let mut brought = brought.to_vec();
    for task in &prepared.tasks {
        if !matches!(task.work, Work::Crud { .. }) {
            classes.append(&mut brought);
        }
        classes.push(task.class.clone());
        match task.work {
            Work::Operation { operation: Operation::Reindex, cold } => {
                let checkpoint = classes::checkpoint(&prepared.tasks, cold);
                classes.extend(checkpoint.filter(measured));
            }
            Work::Script { .. } => {
                classes.extend(
                    prepared.script_classes.iter().filter(|class| measured(class)).cloned(),
                );
            }
            _ => {}
        }
    }
    classes.append(&mut brought);
    classes
}

/// Returns the ids of the tasks that measure the classes of the headline.
pub(super) fn heads(prepared: &Prepared) -> Vec<String> {
    let classes = ordered_classes(prepared, &[], &[]);
    let (_, heads) = headline_classes(&classes);
    let gives = |task: &&Task| heads.iter().any(|head| task_gives(task, &head.id));
    prepared.tasks.iter().filter(gives).map(|task| task.class.id.clone()).collect()
}

/// Returns true if blocks of a task measure the class `id`.
pub(super) fn task_gives(task: &Task, id: &str) -> bool {
    match task.work {
        _ if task.class.id == id => true,
        Work::Operation { operation: Operation::Reindex, cold } => checkpoint_id(cold) == id,
        Work::Script { .. } => id.starts_with("script/"),
        _ => false,
    }
}
