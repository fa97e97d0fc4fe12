/* Several policies on one load, side by side: the report of `tutti compare`, from the points of a
 * sweep over contenders and one parameter.
 *
 * It reads the points as tt_sweep_point gives them (each knows its contender and the parameter's
 * value), and writes them as a table, as a page, and in words: which contender is best where. It
 * runs nothing. */
#ifndef TT_LAB_REPORT_COMPARISON_H
#define TT_LAB_REPORT_COMPARISON_H

#include "base/text.h"
#include "lab/experiment/experiment.h"

#include <jansson.h>

/* One quantity of all points. */
enum tt_comparison_figure {
    TT_COMPARISON_MEAN_MS,
    TT_COMPARISON_P99_MS,
    TT_COMPARISON_GOOD_PER_S,
    TT_COMPARISON_BAD_RATE,
    TT_COMPARISON_BATCH,
    TT_COMPARISON_TTFT_MS, /* of models with objectives for tokens */
    TT_COMPARISON_TPOT_MS,
    TT_COMPARISON_MEMORY,       /* in real time only */
    TT_COMPARISON_GOODPUT,      /* of searches only */
    TT_COMPARISON_MEDIAN_BATCH, /* at that rate */
    TT_COMPARISON_SHARE,        /* of the possible: where a bound was proved */
    TT_COMPARISON_OF_PLAN,      /* the same of a plan that knows the future: one model */
    TT_COMPARISON_OVER_LEAST, /* mean latency over the least possible: one model of static steps */
    TT_COMPARISON_FIGURES
};

struct tt_comparison {
    const char *title, *parameter; /* borrowed */
    const char **contenders;       /* [contender_count]; borrowed from the experiment */
    int32_t contender_count, value_count;
    const char *const *value_texts; /* [value_count] */
    double *values;                 /* of the parameter */
    double *figures;                /* [figure][contender][value]; NAN: not known */
    bool *doubtful;                 /* [contender][value]: its load generator fell behind */
    bool searched;                  /* the points are searches for the goodput */
    bool bounded;                   /* a bound was asked for, also where there is none */
    bool has_tokens;                /* some points have times of tokens */
    bool planned;                   /* some points have a plan that knows the future */
    bool has_least;                 /* some points have a least possible mean latency */
    char not_covered[512];          /* why some of them have no bound; "": all have */
    char place[512];                /* in real time: where and when; "": simulated */
    double slo_ms;                  /* the largest of the models; 0: none */
};

/* Checks that the experiment can be compared and adds the sweep over its contenders to it. Errors:
 * INVALID: fewer than two contenders, two of one name, or not exactly one sweep over one number. */
TT_MUST_CHECK enum tt_err tt_comparison_prepare(struct tt_experiment *experiment,
                                                struct tt_error *why);
/* `points`: an array of sweep points (borrowed for the call). The experiment outlives it. */
void tt_comparison_init(struct tt_comparison *self, const struct tt_experiment *experiment,
                        const json_t *points);
void tt_comparison_fini(struct tt_comparison *self);

void tt_comparison_table(const struct tt_comparison *self, struct tt_text *out);
/* A sentence for each contender: at which values it has the lowest mean and p99 and the most
 * answers in time, or the most goodput (within 1 % of the best), where not every contender has.
 * Before them the values that are doubtful; if all are, no sentence about contenders. */
void tt_comparison_words(const struct tt_comparison *self, struct tt_text *out);
/* The points, and which contenders are best where. A new reference; NULL: out of memory. */
json_t *tt_comparison_json(const struct tt_comparison *self, json_t *points);
/* The same as a page. Errors: NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_comparison_html(const struct tt_comparison *self, json_t *points,
                                             const char *path, struct tt_error *why);

#endif
