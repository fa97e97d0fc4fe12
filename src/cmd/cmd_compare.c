/* tutti compare FILE: runs the contenders of an experiment along one parameter. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"
#include "lab/report/comparison.h"
#include "lab/report/page.h"
#include "lab/sweep/sweep.h"

#include <stdio.h>

struct flags {
    const char *file, *html, *resume;
    bool json, goodput, bound;
    int32_t workers;
};

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "FILE", file, true, "the experiment"),
    TT_SWITCH("goodput", goodput,
              "compare the highest rates at which every model's bad rate is at most 1 %"),
    TT_SWITCH("bound", bound,
              "also compare with what no scheduler can exceed, where that can be proved"),
    TT_TEXT("html", "FILE", html, NULL, "write a page with charts"),
    TT_SWITCH("json", json, "print everything as JSON"),
    TT_TEXT("resume", "FILE", resume, NULL,
            "keep finished points in this file, and skip those that it already holds"),
    TT_INTEGER("workers", "N", workers, 1, 1024, 0,
               "maximum number of processes (default: number of processors)"),
};

static enum tt_err show(const struct tt_experiment *experiment, const struct tt_sweep *sweep,
                        const struct flags *a, struct tt_error *why) {
    json_t *points = json_array();
    for (int32_t point = 0; point < sweep->points; point++) {
        json_t *result = tt_sweep_point(sweep, point);
        if (result)
            json_array_append_new(points, result);
    }
    struct tt_comparison comparison;
    tt_comparison_init(&comparison, experiment, points);
    enum tt_err err = TT_OK;
    if (a->json) {
        tt_outcome_print_json(tt_comparison_json(&comparison, points));
    } else {
        struct tt_text text;
        tt_text_init(&text);
        tt_comparison_table(&comparison, &text);
        tt_outcome_print_text(&text);
    }
    if (a->html && a->goodput)
        err = tt_page_write(
            "goodput", experiment->message->title,
            json_pack("{s:O,s:I}", "points", points, "seed", (json_int_t)experiment->message->seed),
            a->html, why);
    else if (a->html)
        err = tt_comparison_html(&comparison, points, a->html, why);
    tt_comparison_fini(&comparison);
    json_decref(points);
    return err;
}

static enum tt_err compare(struct tt_experiment *experiment, const struct flags *a,
                           struct tt_error *why) {
    enum tt_err err = tt_comparison_prepare(experiment, why);
    if (err)
        return err;
    struct tt_sweep_options options = {.goodput = a->goodput,
                                       .bound = a->bound,
                                       .where_covered = true,
                                       .workers = a->workers,
                                       .state_path = a->resume,
                                       .stop = &tt_interrupted,
                                       .progress = tt_outcome_progress};
    struct tt_sweep sweep;
    err = tt_sweep_init(&sweep, experiment, &options, why);
    if (err)
        return err;
    err = tt_sweep_run(&sweep, why);
    if (!err)
        err = show(experiment, &sweep, a, why);
    if (!err && tt_interrupted)
        fprintf(stderr, "interrupted after %d of %d runs%s%s\n", sweep.finished,
                sweep.points * sweep.seeds, a->resume ? "; continue with --resume " : "",
                a->resume ? a->resume : "");
    tt_sweep_fini(&sweep);
    return err;
}

static int run(void *options) {
    const struct flags *a = options;
    tt_outcome_catch_interrupt();
    tt_outcome_catch_termination(); /* processes of a cluster would go on */
    struct tt_error why;
    struct tt_experiment experiment;
    enum tt_err err = tt_experiment_open(&experiment, a->file, &why);
    if (err)
        return tt_outcome_print_error(NULL, err, &why);
    err = compare(&experiment, a, &why);
    tt_experiment_close(&experiment);
    return err              ? tt_outcome_print_error(NULL, err, &why)
           : tt_interrupted ? EXIT_INTERRUPTED
                            : EXIT_DONE;
}

const struct tt_verb tt_verb_compare = {
    .name = "compare",
    .summary = "compare policies along one parameter: which is best where",
    .usage = "FILE [OPTIONS]",
    .description =
        "Runs every contender of the experiment at every value of its sweep, and reports "
        "which is best where. With --goodput a search instead of a run.",
    TT_VERB_RUNS(flag_rows, run)};
