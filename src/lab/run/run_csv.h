/* The two traces of a run as CSV (docs/FORMATS.md): tasks in start order, ties by executor;
 * outcomes in order of the requests' numbers. Both orders differ from the one in which things end,
 * so each writer holds back what cannot be written yet, and no more: rows that started after one
 * that still runs, outcomes behind one that is still open. */
#ifndef TT_LAB_RUN_RUN_CSV_H
#define TT_LAB_RUN_RUN_CSV_H

#include "base/list.h"
#include "base/text.h"
#include "sim/simulation.h"

#include <stdio.h>

struct tt_task_row;

struct tt_tasks_csv {
    FILE *file;
    const char *path;               /* borrowed */
    const char *const *model_names; /* borrowed */
    struct tt_list rows, spare;     /* struct tt_task_row */
    struct tt_task_row **open;      /* of each executor; NULL: none runs */
    int32_t executor_count;
    bool is_unordered; /* steps are told in any order: all of them are kept until the end */
    bool failed;
};

TT_MUST_CHECK enum tt_err tt_tasks_csv_open(struct tt_tasks_csv *self, const char *path,
                                            const char *const *model_names, int32_t executor_count,
                                            struct tt_error *why);
void tt_tasks_csv_started(struct tt_tasks_csv *self, int64_t now, const struct tt_task *task,
                          int32_t step, const int64_t *request_numbers);
void tt_tasks_csv_ended(struct tt_tasks_csv *self, int64_t now, const struct tt_task *task,
                        int32_t step);
/* Writes what is left (steps that still run are left out) and closes. IO: something could not be
 * written. */
TT_MUST_CHECK enum tt_err tt_tasks_csv_close(struct tt_tasks_csv *self, struct tt_error *why);

struct tt_outcomes_csv {
    FILE *file;
    const char *path;               /* borrowed */
    const char *const *model_names; /* borrowed */
    struct tt_sim_ending *ring;     /* [capacity], a power of two; by number */
    bool *present;
    int64_t capacity;
    int64_t next; /* the number to be written next */
    bool failed;
};

TT_MUST_CHECK enum tt_err tt_outcomes_csv_open(struct tt_outcomes_csv *self, const char *path,
                                               const char *const *model_names,
                                               struct tt_error *why);
void tt_outcomes_csv_ended(struct tt_outcomes_csv *self, const struct tt_sim_ending *ending);
TT_MUST_CHECK enum tt_err tt_outcomes_csv_close(struct tt_outcomes_csv *self, struct tt_error *why);

#endif
