/* The tasks and the outcomes of a run as CSV files (docs/FORMATS.md). Tasks are in start order,
 * ties by executor; outcomes are in the order of the requests' numbers.
 *
 * Tasks and requests end in another order. So each writer keeps only the rows that cannot be
 * written yet: those that started after one that still runs, and outcomes after one that is still
 * open. A file is replaced by the close (base/durable_file.h). */
#ifndef TT_LAB_RUN_RUN_CSV_H
#define TT_LAB_RUN_RUN_CSV_H

#include "base/durable_file.h"
#include "base/list.h"
#include "base/text.h"
#include "sim/simulation.h"

#include <stdio.h>

struct tt_task_row;

struct tt_tasks_csv {
    struct tt_durable_out out;      /* without a file: none is written */
    const char *const *model_names; /* borrowed */
    struct tt_list rows, spare;     /* struct tt_task_row */
    struct tt_task_row **open;      /* of each executor; NULL: none runs */
    int32_t executor_count;
    bool is_unordered; /* steps are reported in any order: all rows are kept until the end */
    bool failed;
};

TT_MUST_CHECK enum tt_err tt_tasks_csv_open(struct tt_tasks_csv *self, const char *path,
                                            const char *const *model_names, int32_t executor_count,
                                            struct tt_error *why);
void tt_tasks_csv_started(struct tt_tasks_csv *self, int64_t now, const struct tt_task *task,
                          int32_t step, const int64_t *request_numbers);
void tt_tasks_csv_ended(struct tt_tasks_csv *self, int64_t now, const struct tt_task *task,
                        int32_t step);
/* Writes the remaining rows, without steps that still run, and closes. `err` is the run's; if it
 * is not OK, it is returned, and the file is as it was. IO: a row could not be written: likewise.
 */
TT_MUST_CHECK enum tt_err tt_tasks_csv_close(struct tt_tasks_csv *self, enum tt_err err,
                                             struct tt_error *why);

struct tt_outcomes_csv {
    struct tt_durable_out out;      /* without a file: none is written */
    const char *const *model_names; /* borrowed */
    struct tt_sim_ending *ring;     /* [capacity], a power of two; by number */
    bool *present;
    int64_t capacity;
    int64_t next; /* the next number to write */
};

TT_MUST_CHECK enum tt_err tt_outcomes_csv_open(struct tt_outcomes_csv *self, const char *path,
                                               const char *const *model_names,
                                               struct tt_error *why);
void tt_outcomes_csv_ended(struct tt_outcomes_csv *self, const struct tt_sim_ending *ending);
/* Likewise. */
TT_MUST_CHECK enum tt_err tt_outcomes_csv_close(struct tt_outcomes_csv *self, enum tt_err err,
                                                struct tt_error *why);

#endif
