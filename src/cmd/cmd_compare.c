/* tutti compare FILE: the contenders of an experiment along one parameter, side by side. */
#include "cmd/arguments.h"
#include "cmd/outcome.h"
#include "cmd/verbs.h"
#include "lab/experiment/sweep.h"
#include "lab/report/comparison.h"

#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

static const char usage[] =
    "Usage: tutti compare FILE [options]\n"
    "Runs every contender of the experiment at every value of its sweep, and says who is best "
    "where.\n"
    "  --html REPORT.html  write a page with charts\n"
    "  --json              everything as JSON\n"
    "  --resume STATE      keep finished points in this file, and do not do them again\n"
    "  --workers N         processes at once (all processors)\n";

struct arguments {
    const char *file, *html, *resume;
    bool json;
    int64_t workers;
};

static int parse(int argc, char **argv, struct arguments *a) {
    static const struct option flags[] = {
        {"html", required_argument, NULL, 'H'},   {"json", no_argument, NULL, 'j'},
        {"resume", required_argument, NULL, 'r'}, {"workers", required_argument, NULL, 'w'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    optind = 1;
    opterr = 0;
    for (int flag; (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        switch (flag) {
        case 'H': a->html = optarg; break;
        case 'j': a->json = true; break;
        case 'r': a->resume = optarg; break;
        case 'w':
            if (!tt_arguments_number(optarg, 1, 1024, &a->workers))
                return tt_arguments_refuse("compare", "--workers takes 1 .. 1024, not", optarg);
            break;
        case 'h': fputs(usage, stdout); return EXIT_DONE;
        default:
            return tt_arguments_refuse("compare",
                                       "no such option, or no value for it:", argv[optind - 1]);
        }
    }
    if (optind + 1 != argc)
        return tt_arguments_refuse("compare",
                                   optind == argc ? "which experiment? give its file"
                                                  : "one file only, not also",
                                   optind == argc ? NULL : argv[optind + 1]);
    a->file = argv[optind];
    return -1;
}

static enum tt_err show(const struct tt_experiment *experiment, const struct tt_sweep *sweep,
                        const struct arguments *a, struct tt_error *why) {
    json_t *points = json_array();
    for (int32_t point = 0; point < sweep->points; point++) {
        json_t *result = tt_sweep_point(sweep, point);
        if (result)
            json_array_append_new(points, result);
    }
    struct tt_comparison comparison;
    enum tt_err err = tt_comparison_init(&comparison, experiment, points, why);
    if (err) {
        json_decref(points);
        return err;
    }
    if (a->json) {
        tt_outcome_print_json(tt_comparison_json(&comparison, points));
    } else {
        struct tt_text text;
        tt_text_init(&text);
        tt_comparison_table(&comparison, &text);
        fputs(tt_text_string(&text), stdout);
        tt_text_fini(&text);
    }
    if (a->html)
        err = tt_comparison_html(&comparison, a->html, why);
    tt_comparison_fini(&comparison);
    json_decref(points);
    return err;
}

static enum tt_err compare(struct tt_experiment *experiment, const struct arguments *a,
                           struct tt_error *why) {
    enum tt_err err = tt_comparison_prepare(experiment, why);
    if (err)
        return err;
    struct tt_sweep_options options = {.workers = (int32_t)a->workers,
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
        fprintf(stderr, "interrupted after %d of %d%s%s\n", sweep.finished,
                sweep.points * sweep.seeds, a->resume ? "; go on with --resume " : "",
                a->resume ? a->resume : "");
    tt_sweep_fini(&sweep);
    return err;
}

int tt_cmd_compare(int argc, char **argv) {
    struct arguments a = {0};
    int code = parse(argc, argv, &a);
    if (code >= 0)
        return code;
    tt_outcome_catch_interrupt();
    struct tt_error why;
    struct tt_experiment experiment;
    enum tt_err err = tt_experiment_open(&experiment, a.file, &why);
    if (err)
        return tt_outcome_complain(err, &why);
    err = compare(&experiment, &a, &why);
    tt_experiment_close(&experiment);
    return err ? tt_outcome_complain(err, &why) : tt_interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}
