/* What a client may ask of the repository: to load a model (again), or to unload it.
 *
 * Loading takes seconds, so a command is answered later: a connection makes one, submits it on its
 * port, and `done` comes from tt_port_drain on the port's thread, exactly once, with the command
 * finished; there the connection reads `err` and `why` and frees it. In between it belongs to
 * whoever controls the server's models (control/control.h); a server whose models never change
 * answers UNAVAILABLE. A client that goes away changes nothing: the command is carried out.
 *
 * A load may bring its own configuration (JSON, instead of config.pbtxt) and its own files (instead
 * of those in the repository; it must bring a configuration then). */
#ifndef TT_SERVE_MODEL_COMMAND_H
#define TT_SERVE_MODEL_COMMAND_H

#include "base/counter.h"
#include "base/err.h"
#include "base/lock.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_port;
struct tt_serving;
struct tt_model_command;

struct tt_model_file {
    char *path; /* within the model's directory, as "1/model.onnx"; checked by who carries it out */
    void *bytes;
    size_t size_bytes;
};

typedef void tt_model_command_done_fn(void *context, struct tt_model_command *command);

struct tt_model_command {
    bool is_load;
    char *name;
    char *config_json; /* NULL: the repository's */
    int32_t file_count;
    struct tt_model_file *files;
    tt_model_command_done_fn *done;
    void *context;
    /* When it is finished: */
    enum tt_err err;
    struct tt_error why;
    /* Its carriers' */
    struct tt_port *port;
    struct tt_model_command *next;
};

/* NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_command_new(const char *name, bool is_load,
                                               struct tt_model_command **out_command);
void tt_model_command_free(struct tt_model_command *take_command); /* NULL-safe */
void tt_model_command_submit(struct tt_port *port, struct tt_model_command *take_command,
                             tt_model_command_done_fn *done, void *context);

/* ---- its carriers ---- */

/* Who carries commands out: takes each on the thread of its port, and answers on any by
 * tt_model_command_finish. */
typedef void tt_model_controller_fn(void *context, struct tt_model_command *command);
/* Before the first port is opened. */
void tt_serving_set_controller(struct tt_serving *serving, tt_model_controller_fn *controller,
                               void *context);
void tt_model_command_finish(struct tt_model_command *take_command);
/* Of a list whose newest stands first, the same with its oldest first. */
struct tt_model_command *tt_model_command_oldest_first(struct tt_model_command *newest);

/* A port's: the commands that are finished and not yet told of. */
struct tt_command_box {
    struct tt_lock lock;
    struct tt_model_command *finished; /* the newest first */
    struct tt_counter finished_count;  /* ever, under the lock */
    int64_t told_count;
    int32_t waiting; /* submitted, not told of; the port's thread's */
};
void tt_command_box_init(struct tt_command_box *self);
void tt_command_box_fini(struct tt_command_box *self);
/* Calls `done` of those that are finished. */
void tt_command_box_drain(struct tt_command_box *self);

#endif
