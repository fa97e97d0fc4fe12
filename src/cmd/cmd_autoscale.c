/* tutti autoscale FILE: a fleet that follows its load for days of virtual time, or in processes of
 * this machine. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "base/instant.h"
#include "lab/autoscale/autoscale_report.h"
#include "lab/autoscale/process_run.h"
#include "lab/experiment/experiment.h"
#include "lab/report/page.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEP_S = 60, REAL_STEP_S = 5 };

struct flags {
    const char *file, *html;
    double hours, start_up_s, hold_s, sample_ms, peak, jumps, search_hours, pace, slower;
    int64_t seed;
    int32_t processes;
    bool json, servers;
};

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "FILE", file, true,
               "an experiment: its models, its devices (the most that there may be), its policy"),
    TT_DECIMAL("hours", "H", hours, 0.1, 1000, 150, "time of the load, in steps of a minute"),
    TT_DECIMAL("start-up", "SECONDS", start_up_s, 0, 36000, 120,
               "from the order of a device until it serves, in virtual time"),
    TT_DECIMAL("hold", "SECONDS", hold_s, 0, 36000, 300,
               "devices go when they were not needed for so long"),
    TT_DECIMAL("sample-ms", "MS", sample_ms, 10, 60000, 100, "simulated of each minute"),
    TT_DECIMAL("peak", "SHARE", peak, 0.01, 1, 0.9,
               "what the highest load needs, as a share of the devices"),
    TT_DECIMAL("jumps", "N", jumps, 0, 1000, 1, "sudden rises of each model's rate, per day"),
    TT_DECIMAL("search-hours", "H", search_hours, 0, 1000, 2.5,
               "time between two searches for the fewest devices; 0: none"),
    TT_INTEGER("seed", "N", seed, 0, INT64_MAX, 1, "seed of rates and requests"),
    TT_SWITCH("servers", servers,
              "also simulate independent servers behind a proxy that scale by their queues"),
    TT_INTEGER(
        "processes", "N", processes, 0, 64, 0,
        "in real time: a cluster on this machine, with so many backends that share the "
        "devices, emulated, and come and go by the advice of its scheduler; 0: virtual time"),
    TT_DECIMAL("pace", "FACTOR", pace, 1, 10000, 60,
               "with --processes: the load's time goes by so much faster, in steps of 5 real "
               "seconds"),
    TT_DECIMAL("slower", "FACTOR", slower, 1, 100000, 1000,
               "with --processes: run times and objectives are so much longer, and rates lower"),
    TT_SWITCH("json", json, "print JSON"),
    TT_TEXT("html", "FILE", html, NULL, "also write a page with charts"),
};

static void progress(void *context, int32_t done, int32_t all) {
    (void)context;
    tt_outcome_progress(NULL, done, all);
}

static enum tt_err print(const struct flags *flags, const struct tt_autoscale_options *options,
                         const struct tt_autoscale_result *result, struct tt_error *why) {
    enum tt_err err = TT_OK;
    if (flags->html)
        err = tt_page_write("autoscale", "Autoscaling", tt_autoscale_report_json(options, result),
                            flags->html, why);
    if (!err && flags->json) {
        tt_outcome_print_json(tt_autoscale_report_json(options, result));
    } else if (!err) {
        struct tt_text text;
        tt_text_init(&text);
        tt_autoscale_report_put(options, result, &text);
        tt_outcome_print_text(&text);
    }
    return err;
}

static enum tt_err scale(const struct flags *flags, const struct tt_scenario *scenario,
                         struct tt_error *why) {
    struct tt_fleet_world_model *models;
    enum tt_err err = tt_autoscale_models(scenario, &models, why);
    if (err)
        return err;
    const struct tt_autoscale_processes processes = {
        .backends = flags->processes, .pace = flags->pace, .slower = flags->slower};
    double step_s = flags->processes > 0 ? REAL_STEP_S * flags->pace : STEP_S;
    double steps = flags->hours * 3600 / step_s, search = flags->search_hours * 3600 / step_s;
    struct tt_autoscale_options options = {.models = models,
                                           .model_count = scenario->model_count,
                                           .capacity = scenario->device_count,
                                           .peak = flags->peak,
                                           .step_count = steps > 1 ? (int32_t)steps : 1,
                                           .step_s = step_s,
                                           .start_up_s = flags->start_up_s,
                                           .hold_s = flags->hold_s,
                                           .jumps_per_day = flags->jumps,
                                           .sample_ns = (int64_t)(flags->sample_ms * TT_MS),
                                           .search_every =
                                               search > 0 && search < 1 ? 1 : (int32_t)search,
                                           .with_servers = flags->servers,
                                           .policy = scenario->policy,
                                           .seed = (uint64_t)flags->seed,
                                           .processes = flags->processes > 0 ? &processes : NULL,
                                           .stop = &tt_interrupted,
                                           .progress = progress};
    struct tt_autoscale_result result;
    err = options.processes ? tt_autoscale_run_processes(&options, &result, why)
                            : tt_autoscale_run(&options, &result, why);
    if (!err) {
        err = print(flags, &options, &result, why);
        tt_autoscale_result_fini(&result);
    }
    free(models);
    return err;
}

static int run(void *options) {
    const struct flags *flags = options;
    struct tt_experiment experiment;
    struct tt_scenario scenario;
    struct tt_error why;
    if (flags->processes > 0 && flags->servers) {
        (void)tt_fail(TT_ERR_INVALID, &why,
                      "--servers are simulated; they do not go with --processes");
        return tt_outcome_print_error("autoscale", TT_ERR_INVALID, &why);
    }
    tt_outcome_catch_interrupt();
    tt_outcome_catch_termination(); /* processes of a cluster would go on */
    enum tt_err err = tt_experiment_open(&experiment, flags->file, &why);
    if (err)
        return tt_outcome_print_error("autoscale", err, &why);
    err = tt_experiment_build(&experiment, &scenario, &why);
    if (!err) {
        err = scale(flags, &scenario, &why);
        tt_scenario_fini(&scenario);
    }
    tt_experiment_close(&experiment);
    if (err == TT_ERR_CANCELLED && tt_interrupted)
        return EXIT_INTERRUPTED;
    if (err)
        return tt_outcome_print_error("autoscale", err, &why);
    return tt_interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}

const struct tt_verb tt_verb_autoscale = {
    .name = "autoscale",
    .summary = "let a fleet follow changing load for days of virtual time, or in processes",
    .usage = "FILE [OPTIONS]",
    .description =
        "Draws rates that change as those of services do, and simulates a fleet whose size follows "
        "the advice about devices. A sample of every minute is simulated. Prints the share of bad "
        "requests, the devices, and the fewest that would have sufficed. The same arguments give "
        "the same answer.\n\n"
        "With --processes the same load goes to a cluster of processes on this machine: a "
        "scheduler, 16 frontends, and backends with emulated devices.\n\n"
        "Exit code: 0 done; 2 usage error, or FILE is invalid; 130 interrupted: the figures are "
        "those until then.",
    TT_VERB_RUNS(flag_rows, run)};
