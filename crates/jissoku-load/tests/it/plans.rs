//! Invalid plans are rejected before the run.

use jissoku_load::{
    Arrival, Idle, OnBusy, Pace, Plan, Rate, Request, Reuse, StopCondition, TargetPlan, Think,
    Trace,
};

use crate::{plan, target};

fn refusal(change: impl Fn(&mut Plan)) -> String {
    let mut plan = plan(&["http://127.0.0.1:1/".to_owned()], 10);
    plan.check().expect("it makes sense before the change");
    change(&mut plan);
    plan.check().expect_err("it makes no sense any more").to_string()
}

#[test]
fn each_message_says_what_is_invalid() {
    assert!(refusal(|plan| plan.targets.clear()).contains("URLs"));
    assert!(refusal(|plan| plan.connections = 0).contains("zero connections"));
    assert!(refusal(|plan| plan.threads = 0).contains("zero threads"));
    assert!(refusal(|plan| plan.threads = 5).contains("5 threads cannot share 4 connections"));
    assert!(refusal(|plan| plan.connections = usize::MAX).contains("too many"));
    assert!(refusal(|plan| plan.pipeline = 0).contains("pipeline"));
    assert!(refusal(|plan| plan.pipeline = 5000).contains("at most 4096"));
    assert!(refusal(|plan| plan.pace = Pace::constant(0)).contains("rate"));
    assert!(refusal(|plan| plan.stop = StopCondition::default()).contains("-d or -n"));
    assert!(refusal(|plan| plan.warmup_ns = 1).contains("--warmup"));
    assert!(refusal(|plan| plan.timeout_ns = 0).contains("timeout"));
    assert!(refusal(|plan| plan.arrival = Arrival::Poisson).contains("--arrival requires -R"));
    assert!(refusal(|plan| plan.on_busy = OnBusy::Drop).contains("--on-busy"));
    assert!(refusal(|plan| plan.deadline_ns = Some(1)).contains("--deadline"));
    assert!(refusal(|plan| plan.reuse = Reuse::Requests(0)).contains("-r"));
    assert!(refusal(|plan| plan.idle = Idle::Hybrid).contains("--idle hybrid requires -R"));
    let pause = |plan: &mut Plan| {
        plan.pace = Pace::constant(1);
        plan.ramp_up_ns = 1;
    };
    assert!(refusal(pause).contains("--ramp-up"));
    let ramp = Pace::Ramp { from: Rate::per_second(1), to: Rate::per_second(2) };
    assert!(refusal(|plan| plan.pace = ramp.clone()).contains("give -d"));
    let few = |plan: &mut Plan| {
        plan.pace = Pace::constant(1);
        plan.on_busy = OnBusy::Open { connections_max: 3 };
    };
    assert!(refusal(few).contains("--max-connections"));
    let trace = Trace::read("arrivals", b"0\n1\n").expect("it makes sense");
    let traced = |change: &dyn Fn(&mut Plan)| {
        refusal(|plan| {
            plan.pace = Pace::Trace(trace.clone());
            plan.check().expect("a trace is fine by itself");
            change(plan);
        })
    };
    assert!(traced(&|plan| plan.targets.push(other_target())).contains("one URL"));
    assert!(traced(&|plan| plan.arrival = Arrival::Poisson).contains("its own arrivals"));
    assert!(traced(&|plan| (plan.stop.requests, plan.warmup_ns) = (None, 1)).contains("--warmup"));
    assert!(traced(&|plan| plan.think = Think::Constant { think_ns: 1 }).contains("--think"));
    assert!(traced(&|plan| plan.on_busy = OnBusy::Open { connections_max: 3 }).contains("--max"));
    let watched = |plan: &mut Plan| (plan.threads, plan.targets[0].watch_pid) = (2, Some(1));
    assert!(traced(&watched).contains("--watch"));
    let both = |plan: &mut Plan| (plan.pipeline, plan.reuse) = (2, Reuse::Close);
    assert!(refusal(both).contains("exclude each other"));
}

fn other_target() -> TargetPlan {
    target("http://127.0.0.1:2/", &Request::default())
}
