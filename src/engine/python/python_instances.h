/* The instances of one Python model: a process each, and the thread that keeps them alive.
 *
 * Only this thread starts processes, since a process is killed when the thread that started it
 * ends. It also waits for their ends and passes on what they print. A process that ends is started
 * again: after 0.1 s, then after twice as long each time, up to 30 s; one that lived for a minute
 * counts as the first again. Every end and every start is one log line.
 *
 *     AWAY -> STARTING -> IDLE <-> BUSY -> GONE -> AWAY
 *                 |         |---------------^
 *                 |-------------------------^
 *
 * Life: _open() starts the thread and waits until all processes have loaded the model; one that
 * cannot makes it fail. An executor takes an idle process, runs a batch and gives it back, as GONE
 * if the process failed. While BUSY a process belongs to its executor; the thread leaves it alone,
 * but ends its socket if it has ended. _close() lets each process finalize the model, and kills one
 * that does not end within 5 s.
 *
 * It knows no batches. Implemented in python_instances.c, and python_output.c for what they print.
 */
#ifndef TT_ENGINE_PYTHON_PYTHON_INSTANCES_H
#define TT_ENGINE_PYTHON_PYTHON_INSTANCES_H

#include "base/log/log_settings.h"
#include "engine/python/python_process.h"

struct tt_python_instances;

struct tt_python_instances_options {
    struct tt_python_program program; /* what it points to is borrowed for life; `instance` is not
                                         read */
    int32_t count;                    /* of instances, >= 1 */
    int64_t max_start_ms; /* that loading the model may take; 0: no limit. A restart: the same */
    void (*say)(void *context, enum tt_log_level level, const char *line); /* NULL: silent */
    void *say_context;
};

/* Blocks until the model serves. Errors: INVALID (the model: its message), NOT_FOUND, NO_MEMORY,
 * IO. */
TT_MUST_CHECK enum tt_err
tt_python_instances_open(const struct tt_python_instances_options *options,
                         struct tt_python_instances **out_instances, struct tt_error *why);
/* No process may be taken. Blocks until all processes have ended. NULL-safe. */
void tt_python_instances_close(struct tt_python_instances *take_instances);

enum tt_python_taking {
    TT_PYTHON_TAKEN,
    TT_PYTHON_ALL_BUSY, /* try again */
    TT_PYTHON_NONE,     /* no process serves, and `why` says the reason */
};
/* Takes an idle process. Executors' threads. */
enum tt_python_taking tt_python_instances_take(struct tt_python_instances *self,
                                               struct tt_python_process **out_process,
                                               struct tt_error *why);
/* Gives it back; `is_gone`: it has ended or was killed (tt_python_process_finish). */
void tt_python_instances_give(struct tt_python_instances *self, struct tt_python_process *process,
                              bool is_gone);
/* Checks the invariants. */
void tt_python_instances_check(struct tt_python_instances *self);

#endif
