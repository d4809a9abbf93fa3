"""The values that all stages share. No I/O, no decisions."""

from jissoku.model.experiment import (
    Axis as Axis,
    Sweep as Sweep,
    SweepSummary as SweepSummary,
)
from jissoku.model.profile import Profile as Profile
from jissoku.model.recipe import (
    BuildStep as BuildStep,
    Capability as Capability,
    ChangeKind as ChangeKind,
    ConfigFile as ConfigFile,
    ForwardArguments as ForwardArguments,
    Knob as Knob,
    KnobChange as KnobChange,
    KnobGoal as KnobGoal,
    ListenArguments as ListenArguments,
    Recipe as Recipe,
    StartCommand as StartCommand,
    UpstreamProtocol as UpstreamProtocol,
    VersionQuery as VersionQuery,
)
from jissoku.model.run import (
    FULL_LOAD as FULL_LOAD,
    Arm as Arm,
    ConnectionMode as ConnectionMode,
    CoreAssignment as CoreAssignment,
    Load as Load,
    LoadLevel as LoadLevel,
    Machine as Machine,
    Match as Match,
    Method as Method,
    Mode as Mode,
    Origin as Origin,
    RawRequest as RawRequest,
    Run as Run,
    Transport as Transport,
    UnavailableTarget as UnavailableTarget,
    Workload as Workload,
    rate_grid as rate_grid,
)
from jissoku.model.summary import (
    Comparison as Comparison,
    CounterReadings as CounterReadings,
    Decision as Decision,
    Estimate as Estimate,
    EvidenceSource as EvidenceSource,
    KnobResult as KnobResult,
    MeasurementStatus as MeasurementStatus,
    Metric as Metric,
    Summary as Summary,
    TuningResult as TuningResult,
    Verdict as Verdict,
)
from jissoku.model.trial import (
    ACHIEVED_MIN as ACHIEVED_MIN,
    SINGLE_RATE_FACTOR as SINGLE_RATE_FACTOR,
    ArmMeasurement as ArmMeasurement,
    Capacity as Capacity,
    CapacityStep as CapacityStep,
    CheckOutcome as CheckOutcome,
    Condition as Condition,
    FailedCheck as FailedCheck,
    Failure as Failure,
    Latency as Latency,
    MachineConditions as MachineConditions,
    TimeSlice as TimeSlice,
    Trial as Trial,
    TrialKind as TrialKind,
    TrialStage as TrialStage,
    VerifiedResponse as VerifiedResponse,
)
from jissoku.model.updated import updated as updated
from jissoku.model.wording import (
    join_names as join_names,
    plural as plural,
    time_text as time_text,
    times as times,
)
