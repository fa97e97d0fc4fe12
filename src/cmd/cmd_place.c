/* tutti place FILE: which models lie in which sub-cluster (src/place/), and what would move. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "base/clock.h"
#include "lab/report/page.h"
#include "lab/report/place_report.h"
#include "lab/scenario/allocate.h"
#include "place/place_bound.h"
#include "place/place_file.h"
#include "place/place_lp.h"
#include "place/place_search.h"
#include "profile/profile_file.h"

#include <stdio.h>
#include <stdlib.h>

struct flags {
    const char *file, *previous, *out, *program, *html;
    double seconds;
    bool json;
};

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "FILE", file, true, "models, sub-clusters and limits"),
    TT_TEXT("previous", "FILE", previous, NULL,
            "the placement in force: moves away from it cost, and the problem may limit that"),
    TT_DECIMAL("seconds", "S", seconds, 0.01, 3600, 1,
               "how much to search, in seconds of a processor of 2020; a slower one takes longer "
               "for the same answer"),
    TT_TEXT("out", "FILE", out, NULL, "write the placement, for the next run as previous one"),
    TT_TEXT("write-lp", "FILE", program, NULL,
            "write the problem as a mixed integer program in LP format, for a solver"),
    TT_SWITCH("json", json, "print the answer as JSON"),
    TT_TEXT("html", "FILE", html, NULL, "also write a page with charts of before and after"),
};

static bool goes_on(void *context, double share) {
    tt_outcome_progress(context, (int32_t)(share * 1000), 1000);
    return !tt_interrupted;
}

static enum tt_err write_text(const char *path, struct tt_text *text, struct tt_error *why) {
    if (text->failed)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    return tt_text_write_file(path, text, why);
}

static enum tt_err write_program(const struct flags *flags, const struct tt_place_problem *problem,
                                 struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    tt_place_lp_put(problem, &text);
    enum tt_err err = write_text(flags->program, &text, why);
    tt_text_fini(&text);
    return err;
}

static enum tt_err write_placement(const struct flags *flags, const struct tt_place_report *report,
                                   struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    tt_place_file_put(report->problem, report->at, &text);
    enum tt_err err = write_text(flags->out, &text, why);
    tt_text_fini(&text);
    return err;
}

static enum tt_err print(const struct flags *flags, const struct tt_place_report *report,
                         struct tt_error *why) {
    enum tt_err err = TT_OK;
    if (flags->html)
        err = tt_page_write("place", "Placement", tt_place_report_json(report), flags->html, why);
    if (!err && flags->out)
        err = write_placement(flags, report, why);
    if (!err && flags->json) {
        json_t *json = tt_place_report_json(report);
        if (!json)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        tt_outcome_print_json(json);
    } else if (!err) {
        struct tt_text text;
        tt_text_init(&text);
        tt_place_report_put(report, &text);
        tt_outcome_print_text(&text);
    }
    return err;
}

/* `before` where every model lay somewhere. */
static bool take_previous(const struct tt_place_problem *problem, int32_t *out_before) {
    for (int32_t i = 0; i < problem->model_count; i++) {
        out_before[i] = problem->models[i].now;
        if (out_before[i] == TT_PLACE_NOWHERE)
            return false;
    }
    return true;
}

static enum tt_err solve(const struct flags *flags, const struct tt_place_file *file,
                         struct tt_error *why) {
    const struct tt_place_problem *problem = &file->problem;
    size_t models = (size_t)problem->model_count;
    int32_t *at = tt_allocate(2 * models, sizeof(*at)), *before = at + models;
    struct tt_place_report report = {.problem = problem,
                                     .at = at,
                                     .has_previous = flags->previous,
                                     .gone = file->gone,
                                     .unassigned = file->unassigned};
    struct tt_place_effort effort = {
        .moves = (int64_t)(flags->seconds * (double)TT_PLACE_MOVES_PER_SECOND), .goes_on = goes_on};
    int64_t started = tt_clock_now();
    enum tt_err err = tt_place_search(problem, &effort, at, why);
    if (!err && (tt_place_bound(problem, &report.lower_bound) ||
                 tt_place_evaluate(problem, at, &report.value)))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    report.seconds = (double)(tt_clock_now() - started) / 1e9;
    if (!err && flags->previous && take_previous(problem, before)) {
        report.before = before;
        if (tt_place_evaluate(problem, before, &report.value_before))
            err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    report.is_cut_short = tt_interrupted;
    if (!err)
        err = print(flags, &report, why);
    free(at);
    return err;
}

static int run(void *options) {
    const struct flags *flags = options;
    struct tt_place_file *file;
    struct tt_error why;
    tt_outcome_catch_interrupt();
    enum tt_err err = tt_place_file_open(flags->file, tt_profile_file_memory, &file, &why);
    if (err)
        return tt_outcome_print_error("place", err, &why);
    if (flags->previous)
        err = tt_place_file_previous(file, flags->previous, &why);
    if (!err && flags->program)
        err = write_program(flags, &file->problem, &why);
    if (!err)
        err = solve(flags, file, &why);
    tt_place_file_close(file);
    if (err)
        return tt_outcome_print_error("place", err, &why);
    return tt_interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}

const struct tt_verb tt_verb_place = {
    .name = "place",
    .summary = "partition models over sub-clusters of a cluster",
    .usage = "FILE [OPTIONS]",
    .description =
        "Reads models with their rates and memory, and puts each in one sub-cluster, so that rates "
        "and memory are balanced and no sub-cluster exceeds its limits. With the placement that is "
        "in force, only as much moves as the problem allows. The answer states a lower bound: no "
        "placement is better than that. The same file gives the same answer on every machine.\n\n"
        "Exit code: 0 a placement was found; 1 none that keeps the limits was found; 2 usage "
        "error, or a problem that has none; 130 interrupted: the best so far was printed.",
    TT_VERB_RUNS(flag_rows, run)};
