#include "lab/run/scenario_run.h"

#include "base/instant.h"
#include "lab/load/arrival_source.h"
#include "lab/run/bad_share.h"
#include "lab/run/cluster_run.h"
#include "lab/run/inside_run.h"
#include "lab/run/run_csv.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

enum {
    INSTANTS_PER_STOP_CHECK = 65536, /* how often `stop` is read */
    INSTANTS_PER_COUNT = 1024        /* how often bad requests are counted where they are limited */
};

/* One run with its observers. */
struct run {
    const struct tt_scenario *scenario;
    struct tt_measure measure;
    struct tt_tasks_csv tasks;
    struct tt_outcomes_csv outcomes;
    const struct tt_sim_observer *also;
    bool has_others; /* not only `measure` observes the ends of requests */
    struct tt_trace *trace;
    struct tt_trace_tap *tap; /* NULL: no trace */
    int64_t bad_limit;
    struct tt_bad_share bad_share;
    struct tt_arrival_source source;
    const char **names;
    struct tt_sim_model *models;
};

TT_APART static void tell_others(struct run *run, const struct tt_sim_ending *ending) {
    if (run->outcomes.out.file)
        tt_outcomes_csv_ended(&run->outcomes, ending);
    if (run->also && run->also->ended)
        run->also->ended(run->also->context, ending);
}

static void on_ended(void *context, const struct tt_sim_ending *ending) {
    struct run *run = context;
    if (run->has_others)
        tell_others(run, ending);
    tt_measure_ended(&run->measure, ending);
}

static void on_step_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                            const int64_t *numbers) {
    struct run *run = context;
    tt_measure_step_started(&run->measure, now, task);
    if (run->tasks.out.file)
        tt_tasks_csv_started(&run->tasks, now, task, step, numbers);
    if (run->also && run->also->step_started)
        run->also->step_started(run->also->context, now, task, step, numbers);
}

static void on_step_ended(void *context, int64_t now, const struct tt_task *task, int32_t step) {
    struct run *run = context;
    tt_measure_step_ended(&run->measure, now, task, step);
    if (run->tasks.out.file)
        tt_tasks_csv_ended(&run->tasks, now, task, step);
    if (run->also && run->also->step_ended)
        run->also->step_ended(run->also->context, now, task, step);
}

static enum tt_err create_policy(void *context, struct tt_mechanism *mechanism,
                                 struct tt_error *why) {
    struct run *run = context;
    const struct tt_scenario *scenario = run->scenario;
    struct tt_option options[TT_MAX_OPTIONS];
    tt_assert(scenario->option_count <= TT_MAX_OPTIONS);
    for (int32_t i = 0; i < scenario->option_count; i++)
        options[i] = tt_scenario_option(scenario, i);
    struct tt_policy_setup setup = {.domain = mechanism,
                                    .d_ctrl_ns = scenario->learns_delays ? 0 : scenario->d_ctrl_ns,
                                    .d_data_ns = scenario->learns_delays ? 0 : scenario->d_data_ns,
                                    .options = options,
                                    .option_count = scenario->option_count};
    enum tt_err err = tt_policy_create(mechanism, scenario->policy, &setup, why);
    char names[256];
    const char *below = scenario->inside.policy ? scenario->inside.policy : scenario->policy;
    bool runs_trees = !err && tt_policy_runs_cells(&tt_policy_find(below)->traits);
    for (int32_t m = 0; !err && !runs_trees && m < scenario->model_count; m++)
        if (scenario->models[m].tree != TT_TREE_NONE)
            err = tt_fail(TT_ERR_INVALID, why,
                          "the requests of model '%s' are trees: only policies that work by cells "
                          "(%s) run them, %s does not",
                          scenario->models[m].name,
                          tt_policy_names(tt_policy_is_by_cells, names, sizeof(names)), below);
    if (!err && run->trace)
        err = tt_trace_add(run->trace, mechanism, scenario->policy, &run->tap, why);
    return err;
}

static enum tt_err open_run(struct run *run, const struct tt_scenario_outputs *outputs,
                            struct tt_error *why) {
    const struct tt_scenario *s = run->scenario;
    run->names = tt_allocate((size_t)s->model_count, sizeof(*run->names));
    run->models = tt_allocate((size_t)s->model_count, sizeof(*run->models));
    tt_measure_init(&run->measure, s->model_count, s->devices, s->device_count);
    run->measure.warm_up_ns = s->warm_up_ns;
    run->measure.counts_only = outputs && outputs->counts_only;
    bool until_done = s->arrivals || s->arrivals_path || s->request_limit > 0;
    run->measure.end_ns = until_done ? TT_NEVER : s->duration_ns;
    for (int32_t m = 0; m < s->model_count; m++) {
        run->names[m] = s->models[m].name;
        run->models[m] = (struct tt_sim_model){.step_model = &s->models[m].step_model,
                                               .input_bytes = s->models[m].input_bytes,
                                               .output_bytes = s->models[m].output_bytes,
                                               .tree = s->models[m].tree,
                                               .cell_rates = s->models[m].cell_rates};
    }
    enum tt_err err = tt_arrival_source_open(&run->source, s, why);
    if (!err && outputs && outputs->tasks_path)
        err = tt_tasks_csv_open(&run->tasks, outputs->tasks_path, run->names,
                                run->measure.executor_count, why);
    if (!err && outputs && outputs->outcomes_path)
        err = tt_outcomes_csv_open(&run->outcomes, outputs->outcomes_path, run->names, why);
    run->has_others = run->outcomes.out.file || (run->also && run->also->ended);
    return err;
}

/* Late requests that wait for their turn will be bad, too. */
static bool is_too_bad(struct run *run, const struct tt_simulation *simulation) {
    const struct tt_mechanism *mechanism = tt_simulation_mechanism(simulation);
    if (run->bad_share.share > 0)
        return tt_bad_share_exceeded(&run->bad_share, &run->measure, mechanism);
    int64_t bad = mechanism->by_age.count;
    for (int32_t m = 0; run->bad_limit > 0 && m < run->measure.model_count; m++)
        bad += tt_measure_bad(&run->measure.models[m]);
    return run->bad_limit > 0 && bad > run->bad_limit;
}

/* Runs to the end, until `stop` is set, or until too many requests were bad. */
static void walk(struct run *run, struct tt_simulation *simulation,
                 const volatile sig_atomic_t *stop, struct tt_scenario_result *result) {
    bool is_limited = run->bad_limit > 0 || run->bad_share.share > 0;
    int64_t instants = is_limited ? INSTANTS_PER_COUNT : INSTANTS_PER_STOP_CHECK;
    while (tt_simulation_run(simulation, instants)) {
        result->interrupted = stop && *stop;
        result->cut = !result->interrupted && is_too_bad(run, simulation);
        if (result->interrupted || result->cut) {
            if (run->measure.end_ns > tt_simulation_now(simulation))
                run->measure.end_ns = TT_NEVER;
            break;
        }
    }
    result->events = tt_simulation_events(simulation);
    result->simulated_ns = tt_simulation_now(simulation);
}

static enum tt_err simulate(struct run *run, bool check, const volatile sig_atomic_t *stop,
                            struct tt_scenario_result *result, struct tt_error *why) {
    const struct tt_scenario *s = run->scenario;
    struct tt_sim_options options = {
        .models = run->models,
        .model_count = s->model_count,
        .devices = s->devices,
        .device_count = s->device_count,
        .depth = s->depth,
        .d_ctrl_ns = s->d_ctrl_ns,
        .d_data_ns = s->d_data_ns,
        .abort_ns = s->abort_ns,
        .jitter_permille = s->jitter_permille,
        .noise = s->noise,
        .seed = s->seed,
        .spread = &s->server.spread,
        .task_ns = s->server.batch_ns,
        .server = tt_server_cost_threads(&s->server),
        .learns_delays = s->learns_delays,
        .learn_percent = s->learns ? TT_BELIEF_PERCENT : 0,
        .perturbations = s->perturbations,
        .perturbation_count = s->perturbation_count,
        .check = check,
        .source = {.context = &run->source,
                   .next = tt_arrival_source_next,
                   .given = tt_arrival_source_given},
        .observer = {.context = run,
                     .ended = on_ended,
                     .step_started = on_step_started,
                     .step_ended = on_step_ended,
                     .ignores_numbers =
                         !run->tasks.out.file && !(run->also && run->also->step_started)},
        .create_policy = create_policy,
        .create_context = run};
    struct tt_inside_run inside = {0};
    enum tt_err err = s->inside.policy ? tt_inside_run_open(&inside, s, run->models, why) : TT_OK;
    if (!err && s->inside.policy) {
        options.models = inside.models;
        options.inside = &inside.options;
    }
    struct tt_simulation *simulation;
    if (!err)
        err = tt_simulation_new(&options, &simulation, why);
    if (!err) {
        walk(run, simulation, stop, result);
        tt_simulation_free(simulation);
    }
    tt_inside_run_close(&inside);
    return err;
}

/* The figures of a generator that falls behind describe the generator. */
static bool is_doubtful(const struct tt_measure *measure, const struct tt_live_spread *lag_ns) {
    struct tt_measure_model total;
    tt_measure_total(measure, &total);
    int64_t mean_ns = tt_histogram_mean(&total.latency_ns);
    int64_t p99_ns = tt_histogram_quantile(&total.latency_ns, 99, 100);
    tt_measure_model_fini(&total);
    return lag_ns->mean > mean_ns / 10 || lag_ns->p99 > p99_ns / 2;
}

static enum tt_err trace_live(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    struct run *run = context;
    return run->trace ? tt_trace_add(run->trace, mechanism, run->scenario->policy, &run->tap, why)
                      : TT_OK;
}

static void on_waited(void *context, int32_t model, int64_t arrived_at, int64_t wait_ns) {
    struct run *run = context;
    tt_measure_waited(&run->measure, model, arrived_at, wait_ns);
}

static enum tt_err play(struct run *run, bool check, const struct tt_scenario_outputs *outputs,
                        const volatile sig_atomic_t *stop, struct tt_scenario_result *result,
                        struct tt_error *why) {
    struct tt_live_run live = {.scenario = run->scenario,
                               .outputs = outputs,
                               .check = check,
                               .stop = stop,
                               .sink = {.context = run,
                                        .ended = on_ended,
                                        .step_started = on_step_started,
                                        .step_ended = on_step_ended},
                               .source = {.context = &run->source, .next = tt_arrival_source_next},
                               .made = trace_live,
                               .made_context = run,
                               .waited = on_waited};
    run->tasks.is_unordered = true;
    enum tt_err err = run->scenario->world == TT_WORLD_CLUSTER ? tt_cluster_run(&live, result, why)
                                                               : tt_live_run(&live, result, why);
    if (err)
        return err;
    bool early = result->interrupted || result->cut;
    if (early && run->measure.end_ns > result->simulated_ns)
        run->measure.end_ns = TT_NEVER;
    result->live.doubtful = is_doubtful(&run->measure, &result->live.lag_ns);
    return TT_OK;
}

enum tt_err tt_scenario_run(const struct tt_scenario *self, bool check,
                            const struct tt_scenario_outputs *outputs,
                            const volatile sig_atomic_t *stop,
                            struct tt_scenario_result *out_result, struct tt_error *why) {
    struct run run = {.scenario = self,
                      .also = outputs ? &outputs->also : NULL,
                      .trace = outputs ? outputs->trace : NULL,
                      .bad_limit = outputs ? outputs->bad_limit : 0};
    struct tt_scenario_result result = {0};
    tt_bad_share_init(&run.bad_share, self, outputs ? outputs->bad_share : 0);
    enum tt_err err = open_run(&run, outputs, why);
    if (!err)
        err = self->world == TT_WORLD_SIMULATED ? simulate(&run, check, stop, &result, why)
                                                : play(&run, check, outputs, stop, &result, why);
    tt_trace_leave(run.tap);
    err = tt_tasks_csv_close(&run.tasks, err, why);
    err = tt_outcomes_csv_close(&run.outcomes, err, why);
    tt_arrival_source_close(&run.source);
    tt_bad_share_fini(&run.bad_share);
    free(run.names);
    free(run.models);
    if (err) {
        tt_measure_fini(&run.measure);
        return err;
    }
    result.measure = run.measure;
    *out_result = result;
    return TT_OK;
}
