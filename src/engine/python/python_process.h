/* One Python process that runs one instance of a model: the interpreter with our driver
 * (src/engine/python/driver.py), the socket to it, and the memory that is shared with it.
 *
 * The process gets five files only, and of the environment only what an interpreter needs, so that
 * no secret of the server reaches the model. It is killed when the thread that started it ends.
 *
 * Life: _start() starts it and sends it its model; it answers READY or FAILED, seconds later. Then
 * _run() passes it one batch at a time. _ask_to_end() lets it finalize the model. After its end
 * (`pidfd` is readable) _reap() waits for it and frees what belongs to it; the struct can be
 * started again. Between _start() and _reap() one thread at a time uses it; python_instances.h says
 * which. _kill() may be called by any thread that knows that _reap() is not called meanwhile.
 *
 * It makes no decisions: when to start it again is not decided here. Implemented in
 * python_process.c. */
#ifndef TT_ENGINE_PYTHON_PYTHON_PROCESS_H
#define TT_ENGINE_PYTHON_PYTHON_PROCESS_H

#include "engine/python/python_batch.h"
#include "engine/python/python_buffer.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { TT_PYTHON_SLOTS = 4 /* output buffers that are kept; more are made when all are in use */ };

struct tt_python_process {
    pid_t pid;  /* 0: there is none */
    int pidfd;  /* readable once it has ended; -1: there is none */
    int socket; /* -1 likewise */
    int output; /* reads what it prints; -1 likewise */
    struct tt_python_buffer *in, *out[TT_PYTHON_SLOTS]; /* NULL: not needed yet */
    bool knows_in, knows_out[TT_PYTHON_SLOTS];          /* the process has it */
};

/* What a process runs. */
struct tt_python_program {
    const char *interpreter; /* searched for in PATH if it has no slash */
    const char *name;        /* of the model */
    const char *path;        /* of its file, model.py */
    const char *config_json; /* NULL: "{}" */
    const struct tt_signature *signature;
    int32_t instance; /* its number, from 0 */
};

enum tt_python_reply {
    TT_PYTHON_READY = 1,
    TT_PYTHON_FAILED, /* with a message */
    TT_PYTHON_DONE,   /* a batch; some members may have errors */
    TT_PYTHON_GONE,   /* the process ends or has ended */
};

/* All members but the process's own are clear. */
void tt_python_process_init(struct tt_python_process *self);
/* Frees the buffers. No process is there. */
void tt_python_process_fini(struct tt_python_process *self);
/* Errors: NOT_FOUND (the interpreter), NO_MEMORY, IO. On error no process is there. */
TT_MUST_CHECK enum tt_err tt_python_process_start(struct tt_python_process *self,
                                                  const struct tt_python_program *program,
                                                  struct tt_error *why);
/* The answer to _start(), for which `socket` is readable: READY, FAILED or GONE. Blocks until it is
 * there. */
enum tt_python_reply tt_python_process_started(struct tt_python_process *self,
                                               struct tt_error *why);
/* Runs a batch, and blocks until its end. DONE: each member has its result or error. FAILED: the
 * model raised an exception, and `why` has it. GONE: the process failed, or was killed. Sets
 * `*out_written_at` once the inputs are in the shared memory. */
enum tt_python_reply tt_python_process_run(struct tt_python_process *self,
                                           const struct tt_signature *signature,
                                           const struct tt_engine_valid_members *valid,
                                           struct tt_python_words *scratch, int64_t *out_written_at,
                                           struct tt_error *why);
void tt_python_process_ask_to_end(struct tt_python_process *self);
/* It, and the processes that it started. Its socket ends at once. */
void tt_python_process_kill(const struct tt_python_process *self);
/* Its socket has ended: waits until it has ended, too, a second at most, and else kills it. How it
 * ended goes to `out_how`: "ended by signal 11 (Segmentation fault)", "ended with exit code 1". */
void tt_python_process_finish(const struct tt_python_process *self, struct tt_error *out_how);
/* True: it has ended, and _reap() does not block. */
bool tt_python_process_has_ended(const struct tt_python_process *self);
/* Waits for its end and closes its files. `out_how` as above. */
void tt_python_process_reap(struct tt_python_process *self, struct tt_error *out_how);

#endif
