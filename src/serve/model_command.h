/* A client's command to load a model (again), or to unload it.
 *
 * Loading takes seconds, so a command is answered later. A connection makes it and submits it on
 * its port (tt_port_submit_command()). `done` is called once, from tt_port_drain(), on the port's
 * thread; there the connection reads `err` and `why`, and frees the command. In between it belongs
 * to the controller of the server's models (control/control.h). A server without a controller
 * answers UNAVAILABLE. A client that goes away changes nothing: the command is carried out.
 *
 * A load may bring its own configuration (JSON, instead of config.pbtxt) and its own files (instead
 * of those in the repository; it must bring a configuration then).
 *
 * Implemented in model_command.c. */
#ifndef TT_SERVE_MODEL_COMMAND_H
#define TT_SERVE_MODEL_COMMAND_H

#include "base/err.h"
#include "base/threads/counter.h"
#include "base/threads/lock.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_command_box;
struct tt_quota;
struct tt_model_command;
struct tt_served_model;

struct tt_model_file {
    char *path; /* in the model's directory, as "1/model.onnx"; the controller checks it */
    void *bytes;
    size_t size_bytes;
};

typedef void tt_model_command_done_fn(void *context, struct tt_model_command *command);

struct tt_model_command {
    bool is_load;
    bool is_local; /* in a cluster: for this process only */
    char *name;
    char *config_json; /* NULL: the repository's */
    int32_t file_count;
    struct tt_model_file *files;
    struct tt_quota *quota; /* borrowed; NULL: none. What the files and the configuration hold: */
    int64_t quota_bytes;
    tt_model_command_done_fn *done;
    void *context;
    /* When it is finished: */
    enum tt_err err;
    struct tt_error why;
    /* The controller's */
    struct tt_command_box *box; /* where it goes when it is finished */
    struct tt_model_command *next;
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_command_new(const char *name, bool is_load,
                                               struct tt_model_command **out_command);
void tt_model_command_free(struct tt_model_command *take_command); /* NULL-safe */
/* Takes from the quota, until the files are freed, what a filled command holds: commands may wait
 * for long, since one is carried out at a time. Once; any thread. BUSY: the quota is spent. */
TT_MUST_CHECK enum tt_err tt_model_command_charge(struct tt_model_command *self,
                                                  struct tt_quota *quota, struct tt_error *why);

/* ---- the controller ---- */

/* Carries commands out. `submit` gets each command on the thread of its port, must not block, and
 * answers later, on any thread, by tt_model_command_finish(). */
struct tt_model_controller {
    void (*submit)(void *context, struct tt_model_command *take_command); /* NULL: none */
    /* The model fails all its requests from now on; `failure` in it says why. In a turn: must not
     * block. NULL: it is not notified. */
    void (*failed)(void *context, struct tt_served_model *model);
    void *context;
};
/* `err` and `why` are set; its files are freed. Any thread that holds no lock; may wake the port's
 * thread. */
void tt_model_command_finish(struct tt_model_command *take_command);
/* Reverses the list by `next`: the newest first becomes the oldest first. */
struct tt_model_command *tt_model_command_oldest_first(struct tt_model_command *newest);

/* ---- a port's commands ---- */

/* Its finished commands whose `done` was not called yet. */
struct tt_command_box {
    struct tt_lock lock;
    struct tt_model_command *finished; /* the newest first */
    struct tt_counter finished_count;  /* ever, under the lock */
    int64_t reported_count;
    int32_t waiting; /* submitted, and `done` not called yet; the port's thread's */
    const struct tt_model_controller *controller; /* borrowed */
    void (*wake)(void *context);                  /* of the port's thread */
    void *wake_context;
};
void tt_command_box_init(struct tt_command_box *self, const struct tt_model_controller *controller,
                         void (*wake)(void *context), void *wake_context);
void tt_command_box_fini(struct tt_command_box *self);
/* The port's thread. */
void tt_command_box_submit(struct tt_command_box *self, struct tt_model_command *take_command);
/* Calls `done` of those that are finished. The port's thread. */
void tt_command_box_drain(struct tt_command_box *self);

#endif
