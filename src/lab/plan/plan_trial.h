/* A real server for `tutti plan`: a scratch repository and `tutti serve` on it in a child process,
 * loaded by `tutti load` in another.
 *
 * Life: _open makes the folder; _add links a model into it, everything but its tutti.pbtxt; _set
 * writes that; _start, _load any number of times, _stop; _close removes the folder. The models'
 * own folders are never written to. One server at a time. Children end with this process, and their
 * temporary files lie in the folder, too. */
#ifndef TT_LAB_PLAN_PLAN_TRIAL_H
#define TT_LAB_PLAN_PLAN_TRIAL_H

#include "base/text.h"
#include "lab/plan/trial_folder.h"
#include "model/repository/repository.h"

#include <jansson.h>
#include <signal.h>
#include <sys/types.h>

struct tt_plan_trial {
    struct tt_trial_folder folder; /* the repository */
    char log[300];                 /* the server's standard error */
    char recording[300];           /* written if _start was asked to */
    char temporary[300];           /* the children's TMPDIR */
    const char *onnxruntime;       /* NULL: searched for */
    pid_t server;                  /* 0: none runs */
    int port;
    const volatile sig_atomic_t *stop; /* ends waits with CANCELLED */
};

/* Errors: IO. */
TT_MUST_CHECK enum tt_err tt_plan_trial_open(struct tt_plan_trial *self, struct tt_error *why);
void tt_plan_trial_close(struct tt_plan_trial *self);
/* `profile`: a file to take as the model's; NULL: its own. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_plan_trial_add(struct tt_plan_trial *self,
                                            const struct tt_repository_model *model,
                                            const char *profile, struct tt_error *why);
/* Writes the model's tutti.pbtxt. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_plan_trial_set(struct tt_plan_trial *self, const char *model,
                                            const struct tt_text *settings, struct tt_error *why);
/* Runs `tutti ARGS` and returns what it printed on standard output; its standard error is this
 * process's if `shows_errors`. `args` ends with NULL. Errors: INVALID, with its last line on
 * standard error if that is not shown, if its exit code is neither 0 nor `also_good`. */
TT_MUST_CHECK enum tt_err tt_plan_trial_run(struct tt_plan_trial *self, const char *const *args,
                                            int also_good, bool shows_errors,
                                            struct tt_text *out_text, struct tt_error *why);
/* Starts the server with so many executors and waits until it serves. Errors: INVALID, with the
 * server's last message, if a model cannot be served; IO, CANCELLED. */
TT_MUST_CHECK enum tt_err tt_plan_trial_start(struct tt_plan_trial *self, int32_t executors,
                                              bool records, struct tt_error *why);
/* Ends the server, which finishes its recording. NULL-safe where none runs. */
void tt_plan_trial_stop(struct tt_plan_trial *self);

/* Processor time of the server so far, in ns, as the system accounts it. */
struct tt_plan_trial_cpu {
    int64_t main_ns;      /* the connection thread; short batches included */
    int64_t executors_ns; /* all executor threads */
    int64_t others_ns;
    int64_t waited_ns; /* all threads: ready to run, while others had the processors */
};
struct tt_plan_trial_cpu tt_plan_trial_cpu(const struct tt_plan_trial *self);
/* The sum of all samples of a metric of the server's page, of any labels; 0: there is none. */
double tt_plan_trial_metric(const struct tt_plan_trial *self, const char *name);

#endif
