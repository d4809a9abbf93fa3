//! A plan that makes no sense is refused before anybody is asked anything.

use jissoku_load::{Arrival, Idle, OnBusy, Pace, Plan, Reuse, Until};

use crate::plan;

fn refusal(change: impl Fn(&mut Plan)) -> String {
    let mut plan = plan(&["http://127.0.0.1:1/".to_owned()], 10);
    plan.check().expect("it makes sense before the change");
    change(&mut plan);
    plan.check().expect_err("it makes no sense any more").to_string()
}

#[test]
fn each_refusal_says_what_is_wrong() {
    assert!(refusal(|plan| plan.lanes.clear()).contains("URLs"));
    assert!(refusal(|plan| plan.connections = 0).contains("zero connections"));
    assert!(refusal(|plan| plan.threads = 0).contains("zero threads"));
    assert!(refusal(|plan| plan.threads = 5).contains("5 threads cannot share 4 connections"));
    assert!(refusal(|plan| plan.connections = usize::MAX).contains("more than there can be"));
    assert!(refusal(|plan| plan.pipeline = 0).contains("pipeline"));
    assert!(refusal(|plan| plan.pipeline = 5000).contains("at most 4096"));
    assert!(refusal(|plan| plan.pace = Pace::Constant { rate_rps: 0 }).contains("rate"));
    assert!(refusal(|plan| plan.until = Until::default()).contains("-d or -n"));
    assert!(refusal(|plan| plan.warmup_ns = 1).contains("warm-up"));
    assert!(refusal(|plan| plan.timeout_ns = 0).contains("time-out"));
    assert!(refusal(|plan| plan.arrival = Arrival::Poisson).contains("--arrival goes with -R"));
    assert!(refusal(|plan| plan.on_busy = OnBusy::Drop).contains("--on-busy"));
    assert!(refusal(|plan| plan.deadline_ns = Some(1)).contains("--deadline"));
    assert!(refusal(|plan| plan.reuse = Reuse::Requests(0)).contains("-r"));
    assert!(refusal(|plan| plan.idle = Idle::Hybrid).contains("--idle hybrid goes with -R"));
    let pause = |plan: &mut Plan| {
        plan.pace = Pace::Constant { rate_rps: 1 };
        plan.ramp_up_ns = 1;
    };
    assert!(refusal(pause).contains("--ramp-up"));
    let ramp = Pace::Ramp { from_rps: 1, to_rps: 2 };
    assert!(refusal(|plan| plan.pace = ramp).contains("give -d"));
    let few = |plan: &mut Plan| {
        plan.pace = Pace::Constant { rate_rps: 1 };
        plan.on_busy = OnBusy::Open { connections_max: 3 };
    };
    assert!(refusal(few).contains("--max-connections"));
    let both = |plan: &mut Plan| (plan.pipeline, plan.reuse) = (2, Reuse::Close);
    assert!(refusal(both).contains("exclude each other"));
}
