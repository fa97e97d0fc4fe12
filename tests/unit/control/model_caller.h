/* A client of a control on a thread of its own, which asks the model "m" and changes it: requests,
 * answers, commands. Failures on other threads abort. All functions are inline; there is no .c
 * file. */
#ifndef MODEL_CALLER_H
#define MODEL_CALLER_H

#include "serve/inference_state.h"
#include "serve/served_model_state.h"
#include "unit/control/model_folder.h"

#include "base/clock.h"
#include "base/threads/flag.h"
#include "control/control.h"
#include "serve/inference.h"
#include "serve/model_command.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A port with a bell. */
struct caller {
    struct tt_port *port;
    int bell;
    int32_t waiting;
    int64_t ok, refused, wrong;
    int64_t failed;    /* for want of a device; other failures abort */
    float expected[2]; /* both are right for the input 1 */
    enum tt_err command_err;
    char command_why[1024];
};

static inline void ring(void *context) {
    struct caller *self = context;
    uint64_t one = 1;
    ssize_t written = write(self->bell, &one, sizeof(one));
    tt_assert(written == sizeof(one));
}

static inline void caller_open(struct caller *self, struct tt_control *control) {
    struct tt_error why;
    *self = (struct caller){.bell = eventfd(0, EFD_CLOEXEC), .expected = {-1, 1}};
    enum tt_err err =
        tt_serving_open_port(tt_control_serving(control), ring, self, &self->port, &why);
    tt_assert(err == TT_OK);
}

static inline void caller_close(struct caller *self) {
    tt_port_close(self->port);
    close(self->bell);
}

/* One round of answers; what is silent for a minute is broken. */
static inline void caller_hear(struct caller *self, int timeout_ms) {
    struct pollfd bell = {self->bell, POLLIN, 0};
    if (poll(&bell, 1, timeout_ms) == 1) {
        uint64_t count;
        ssize_t got = read(self->bell, &count, sizeof(count));
        tt_assert(got == sizeof(count));
    } else {
        tt_assert(timeout_ms < 60000);
    }
    tt_port_drain(self->port);
}

static inline void on_answer(void *context, struct tt_inference *inference, enum tt_err err,
                             const char *why) {
    struct caller *self = context;
    self->waiting--;
    if (err) {
        tt_assert(err == TT_ERR_UNAVAILABLE && strstr(why, "the bus was lost"));
        self->failed++;
        tt_inference_release(inference);
        return;
    }
    struct tt_tensor_view view;
    tt_inference_output(inference, 0, &view);
    tt_assert(view.size_bytes == 2 * sizeof(float));
    const float *values = view.bytes;
    bool good = (values[0] == self->expected[0] || values[0] == self->expected[1]) &&
                values[0] == values[1];
    self->ok += good;
    self->wrong += !good;
    tt_inference_release(inference);
}

/* False: there is no such model now. */
static inline bool caller_ask(struct caller *self, const char *name) {
    struct tt_error why;
    struct tt_served_model *model;
    enum tt_err err = tt_serving_find(self->port, name, "", &model, &why);
    if (err) {
        tt_assert(err == TT_ERR_UNAVAILABLE || err == TT_ERR_NOT_FOUND);
        self->refused++;
        return false;
    }
    struct tt_inference_shape shape = {0, {2, {1, 2}}};
    size_t none = 0, bytes;
    struct tt_inference *inference;
    err = tt_inference_begin(self->port, model, &shape, &none, 1, &inference, &why);
    tt_assert(err == TT_OK);
    float *input = tt_inference_input(inference, 0, &bytes);
    input[0] = input[1] = 1;
    self->waiting++;
    tt_inference_submit(inference, &(struct tt_inference_options){0}, on_answer, self);
    return true;
}

static struct tt_flag enough __attribute__((unused)); /* ends all clients */

/* A thread: keeps eight requests to the model "m" under way. */
static inline void *client_main(void *context) {
    struct caller *self = context;
    while (!tt_flag_is_raised(&enough)) {
        while (self->waiting < 8 && caller_ask(self, "m"))
            continue;
        caller_hear(self, self->waiting ? 60000 : 1);
    }
    while (self->waiting)
        caller_hear(self, 60000);
    return NULL;
}

/* Of all versions, by add_stats(). */
struct sum {
    int64_t accepted, succeeded, in_flight;
};

static inline void add_stats(void *context, const char *name, const char *version,
                             const struct tt_model_stats *stats) {
    (void)name;
    (void)version;
    struct sum *sum = context;
    sum->accepted += tt_counter_get(&stats->accepted);
    sum->succeeded += tt_counter_get(&stats->succeeded);
    sum->in_flight += tt_model_stats_in_flight(stats);
}

static inline void on_command(void *context, struct tt_model_command *command) {
    struct caller *self = context;
    self->waiting--;
    self->command_err = command->err;
    snprintf(self->command_why, sizeof(self->command_why), "%s", command->why.text);
    tt_model_command_free(command);
}

/* Loads the operator as version `version` of the model, or what lies on disk (NULL); waits. */
static inline enum tt_err command(struct caller *self, bool is_load, const char *operator,
                                  const char * path) {
    struct tt_model_command *command;
    assert_int_equal(tt_model_command_new("m", is_load, &command), TT_OK);
    if (operator) {
        struct tt_text onnx = tiny_onnx_unary(operator, TINY_FLOAT, TINY_DIMS(-1, 2));
        command->config_json = strdup("{}");
        command->files = calloc(1, sizeof(*command->files));
        command->file_count = 1;
        command->files[0] = (struct tt_model_file){strdup(path), onnx.bytes, onnx.length};
    }
    self->waiting++;
    tt_port_submit_command(self->port, command, on_command, self);
    while (self->waiting)
        caller_hear(self, 60000);
    return self->command_err;
}

static inline void say_nothing(void *context, enum tt_log_level level, const char *line) {
    (void)level;
    (void)context;
    (void)line;
}

static inline struct tt_control *open_control(enum tt_control_mode mode) {
    struct tt_control_options options = {.repositories = roots,
                                         .repository_count = 1,
                                         .mode = mode,
                                         .poll_ns = TT_S,
                                         .loader = {.executors = 2, .say = say_nothing}};
    struct tt_control *control = NULL;
    struct tt_error why = {{0}};
    if (tt_control_open(&options, &control, &why))
        fail_msg("%s", why.text);
    return control;
}

#endif
