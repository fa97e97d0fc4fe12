/* The interface of serve/serving.h without a scheduler, so that the HTTP side can be tested alone:
 * models that live in memory and answer in submit (the answer then comes through the port, as
 * always). Include it in exactly one source of a program that does not link rt's own.
 *
 *   identity  FP32 [-1,-1], rows batched up to 8: OUT = IN
 *   addsub    INT32 [-1,4] twice, batched: SUM, DIFF
 *   strings   BYTES [-1,1], batched: OUT = IN
 *   held      like identity, but answers only when the test says so
 *   offender  like identity, but every inference fails as INVALID
 *   loading   known, not ready */
#ifndef TT_TESTS_FAKE_SERVING_H
#define TT_TESTS_FAKE_SERVING_H

#include "base/instant.h"
#include "metrics/metrics.h"
#include "net/dashboard/dashboard_state.h"
#include "serve/catalogue.h"
#include "serve/inference.h"
#include "serve/model_command.h"
#include "serve/model_stats.h"
#include "serve/served_model.h"
#include "serve/serving.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What a model says to requests that may ask first. */
enum fake_asking { FAKE_ASKS_NOTHING, FAKE_ASKS_AND_TAKES, FAKE_ASKS_AND_REFUSES };

struct tt_served_model {
    const char *name;
    struct tt_signature signature;
    enum fake_asking asking; /* read and written atomically */
    int asked_rows;          /* of all that asked; the same */
};

struct tt_inference {
    struct tt_port *port;
    struct tt_served_model *model;
    struct tt_shape shapes[2];
    void *inputs[2];
    size_t sizes_bytes[2];
    void *outputs[2];
    tt_inference_done_fn *done;
    void *context;
    struct tt_inference_options options;
    bool submitted, cancelled;
    bool asks; /* it has no inputs */
    struct tt_inference *next;
};

struct tt_port {
    struct tt_serving *serving;
    tt_port_wake_fn *wake;
    void *context;
    struct tt_inference *ready;
    struct tt_model_command *commands; /* every one succeeds, but of the model "offender" */
};

enum { FAKE_MODELS = 5 };
enum { FAKE_CAME_BEFORE_NS = 1000 }; /* before it was read */

struct tt_serving {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tt_served_model models[FAKE_MODELS];
    struct tt_inference *held;
    int held_count, cancelled_count, live_count; /* live: begun and not yet released */
    bool busy;                                   /* begin answers BUSY */
    bool retired;
    struct tt_catalogue *catalogue; /* of the metrics page; NULL: none */
    struct tt_inference_options last_options;
};

static struct tt_tensor_spec fake_spec(const char *name, enum tt_dtype dtype, int64_t dim) {
    struct tt_tensor_spec spec = {.dtype = dtype, .shape = {.rank = 2, .dims = {-1, dim}}};
    strcpy(spec.name, name);
    return spec;
}

static inline void fake_serving_init(struct tt_serving *self) {
    static const char *const names[FAKE_MODELS] = {"identity", "addsub", "strings", "held",
                                                   "offender"};
    memset(self, 0, sizeof(*self));
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    for (int i = 0; i < FAKE_MODELS; i++) {
        struct tt_signature *signature = &self->models[i].signature;
        bool two = strcmp(names[i], "addsub") == 0, text = strcmp(names[i], "strings") == 0;
        enum tt_dtype dtype = two ? TT_DTYPE_INT32 : text ? TT_DTYPE_BYTES : TT_DTYPE_FP32;
        int64_t dim = two ? 4 : text ? 1 : -1;
        self->models[i].name = names[i];
        *signature = (struct tt_signature){.batched = true,
                                           .max_batch = 8,
                                           .input_count = two ? 2 : 1,
                                           .output_count = two ? 2 : 1};
        signature->inputs[0] = fake_spec(two ? "A" : "IN", dtype, dim);
        signature->outputs[0] = fake_spec(two ? "SUM" : "OUT", dtype, dim);
        if (two) {
            signature->inputs[1] = fake_spec("B", dtype, dim);
            signature->outputs[1] = fake_spec("DIFF", dtype, dim);
        }
    }
}

static inline void fake_serving_fini(struct tt_serving *self) {
    tt_assert(self->live_count == 0);
    tt_catalogue_unref(self->catalogue);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
}

enum tt_err tt_serving_open_port(struct tt_serving *serving, tt_port_wake_fn *wake, void *context,
                                 struct tt_port **out_port, struct tt_error *why) {
    struct tt_port *port = calloc(1, sizeof(*port));
    if (!port)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory");
    *port = (struct tt_port){.serving = serving, .wake = wake, .context = context};
    *out_port = port;
    return TT_OK;
}

void tt_port_close(struct tt_port *port) { free(port); }

static void fake_finish_locked(struct tt_inference *inference) {
    struct tt_port *port = inference->port;
    inference->next = port->ready;
    port->ready = inference;
    if (!inference->next)
        port->wake(port->context);
}

/* Lets every held inference finish; from any thread. */
static inline void fake_release_held(struct tt_serving *self) {
    pthread_mutex_lock(&self->lock);
    while (self->held) {
        struct tt_inference *inference = self->held;
        self->held = inference->next;
        self->held_count--;
        fake_finish_locked(inference);
    }
    pthread_mutex_unlock(&self->lock);
}

/* Once, before its first look. */
static inline void fake_set_catalogue(struct tt_serving *self,
                                      struct tt_catalogue *take_catalogue) {
    pthread_mutex_lock(&self->lock);
    tt_assert(!self->catalogue);
    self->catalogue = take_catalogue;
    pthread_mutex_unlock(&self->lock);
}

static inline void fake_set_busy(struct tt_serving *self, bool busy) {
    pthread_mutex_lock(&self->lock);
    self->busy = busy;
    pthread_mutex_unlock(&self->lock);
}

static inline void fake_set_asking(struct tt_serving *self, const char *name,
                                   enum fake_asking asking) {
    for (int i = 0; i < FAKE_MODELS; i++)
        if (strcmp(self->models[i].name, name) == 0)
            __atomic_store_n(&self->models[i].asking, asking, __ATOMIC_RELAXED);
}

static inline int fake_asked_rows(const struct tt_serving *self, const char *name) {
    int rows = 0;
    for (int i = 0; i < FAKE_MODELS; i++)
        if (strcmp(self->models[i].name, name) == 0)
            rows += __atomic_load_n(&self->models[i].asked_rows, __ATOMIC_RELAXED);
    return rows;
}

/* Waits until *count is `wanted`; from any thread. */
static inline void fake_wait(struct tt_serving *self, const int *count, int wanted) {
    pthread_mutex_lock(&self->lock);
    while (*count != wanted)
        pthread_cond_wait(&self->changed, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

/* What the last request's time counts from; 0: from its submission. */
static inline int64_t fake_since_at(struct tt_serving *self) {
    pthread_mutex_lock(&self->lock);
    int64_t since_at = self->last_options.since_at;
    pthread_mutex_unlock(&self->lock);
    return since_at;
}

void tt_port_submit_command(struct tt_port *port, struct tt_model_command *command,
                            tt_model_command_done_fn *done, void *context) {
    command->done = done;
    command->context = context;
    command->next = port->commands;
    port->commands = command;
    if (strcmp(command->name, "offender") == 0)
        command->err = tt_fail(TT_ERR_INVALID, &command->why, "load failed for model 'offender'");
    port->wake(port->context);
}
void tt_port_hold_back(struct tt_port *port) { (void)port; }

void tt_port_flush(struct tt_port *port) { (void)port; }

void tt_port_rest(struct tt_port *port) { (void)port; }
void tt_port_rested(struct tt_port *port) { (void)port; }
bool tt_port_has_requests(const struct tt_port *port) {
    (void)port;
    return false;
}

int64_t tt_port_since(struct tt_port *port, int64_t now) {
    (void)port;
    return now - FAKE_CAME_BEFORE_NS;
}
int64_t tt_port_answer_ns(const struct tt_port *port) {
    (void)port;
    return 0;
}

static enum fake_asking fake_asking(const struct tt_served_model *model) {
    return __atomic_load_n(&model->asking, __ATOMIC_RELAXED);
}

void tt_port_drain(struct tt_port *port) {
    while (port->commands) {
        struct tt_model_command *command = port->commands;
        port->commands = command->next;
        command->done(command->context, command);
    }
    pthread_mutex_lock(&port->serving->lock);
    struct tt_inference *ready = port->ready;
    port->ready = NULL;
    pthread_mutex_unlock(&port->serving->lock);
    while (ready) {
        struct tt_inference *inference = ready;
        ready = inference->next;
        bool fails = strcmp(inference->model->name, "offender") == 0;
        bool refuses = inference->asks && fake_asking(inference->model) == FAKE_ASKS_AND_REFUSES;
        enum tt_err err = inference->cancelled        ? TT_ERR_CANCELLED
                          : refuses                   ? TT_ERR_TIMEOUT
                          : fails && !inference->asks ? TT_ERR_INVALID
                                                      : TT_OK;
        inference->done(inference->context, inference, err,
                        inference->cancelled ? "cancelled"
                        : refuses            ? "it would be late"
                                             : "model 'offender' takes offence");
    }
}

enum tt_err tt_serving_find(struct tt_port *port, const char *name, const char *version,
                            struct tt_served_model **out_model, struct tt_error *why) {
    struct tt_serving *serving = port->serving;
    if (strcmp(name, "loading") == 0)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "model 'loading' is being loaded");
    for (int i = 0; i < FAKE_MODELS; i++)
        if (strcmp(name, serving->models[i].name) == 0 &&
            (!*version || strcmp(version, "1") == 0)) {
            *out_model = &serving->models[i];
            return TT_OK;
        }
    return tt_fail(TT_ERR_NOT_FOUND, why, "Request for unknown model: '%s' is not found", name);
}

const struct tt_signature *tt_served_model_signature(const struct tt_served_model *model) {
    return &model->signature;
}
const char *tt_served_model_name(const struct tt_served_model *model) { return model->name; }
const char *tt_served_model_version(const struct tt_served_model *model) {
    (void)model;
    return "1";
}
struct tt_served_model *tt_served_model_ref(struct tt_served_model *self) {
    return self;
}
void tt_served_model_unref(struct tt_served_model *self) { (void)self; }
bool tt_served_model_is_held(const struct tt_served_model *self) {
    (void)self;
    return false;
}

int32_t tt_served_model_emitted(const struct tt_served_model *model) {
    (void)model;
    return -1;
}
void tt_served_model_word(const struct tt_served_model *model, const void *bytes,
                          struct tt_tensor_view *out_view) {
    (void)model;
    (void)bytes;
    (void)out_view;
}
int32_t tt_served_model_retry_after_s(const struct tt_served_model *model) {
    (void)model;
    return 1;
}
const char *tt_served_model_platform(const struct tt_served_model *model) {
    (void)model;
    return "onnxruntime_onnx";
}
enum tt_err tt_served_model_config_json(const struct tt_served_model *model,
                                        struct tt_text *out_json) {
    tt_text_printf(out_json, "{\"name\":\"%s\",\"max_batch_size\":%d}", model->name,
                   model->signature.max_batch);
    return TT_OK;
}

enum tt_err tt_inference_begin(struct tt_port *port, struct tt_served_model *model,
                               const struct tt_inference_shape *shapes, const size_t *sizes_bytes,
                               int32_t count, struct tt_inference **out_inference,
                               struct tt_error *why) {
    struct tt_serving *serving = port->serving;
    tt_assert(count == model->signature.input_count);
    if (!tt_serving_ready(serving))
        return tt_fail(TT_ERR_BUSY, why, "model '%s' has too many requests in flight", model->name);
    for (int32_t i = 0; i < count; i++) {
        const struct tt_tensor_spec *spec = &model->signature.inputs[shapes[i].input];
        if (!tt_shape_fits(&shapes[i].shape, &spec->shape, true))
            return tt_fail(TT_ERR_INVALID, why, "unexpected shape for input '%s'", spec->name);
        if (shapes[i].shape.dims[0] > model->signature.max_batch || shapes[i].shape.dims[0] < 1)
            return tt_fail(TT_ERR_INVALID, why,
                           "inference request batch-size must be <= %d for '%s'",
                           model->signature.max_batch, model->name);
    }
    struct tt_inference *inference = calloc(1, sizeof(*inference));
    inference->port = port;
    inference->model = model;
    for (int32_t i = 0; i < count; i++) {
        int32_t input = shapes[i].input;
        size_t element_bytes = tt_dtype_bytes(model->signature.inputs[input].dtype);
        inference->shapes[input] = shapes[i].shape;
        inference->sizes_bytes[input] =
            element_bytes ? (size_t)tt_shape_count(&shapes[i].shape, 0) * element_bytes
                          : sizes_bytes[i];
        inference->inputs[input] = malloc(inference->sizes_bytes[input] + 1);
        inference->outputs[input] = malloc(inference->sizes_bytes[input] + 1);
    }
    pthread_mutex_lock(&serving->lock);
    serving->live_count++;
    pthread_mutex_unlock(&serving->lock);
    *out_inference = inference;
    return TT_OK;
}

bool tt_inference_may_ask(const struct tt_served_model *model) {
    return fake_asking(model) != FAKE_ASKS_NOTHING;
}

/* Not those with more than a second. */
bool tt_inference_should_ask(const struct tt_served_model *model,
                             const struct tt_inference_options *options) {
    (void)model;
    return options->timeout_ns <= TT_S;
}

enum tt_err tt_inference_ask(struct tt_port *port, struct tt_served_model *model, int32_t rows,
                             struct tt_inference **out_inference, struct tt_error *why) {
    struct tt_serving *serving = port->serving;
    if (!tt_serving_ready(serving))
        return tt_fail(TT_ERR_BUSY, why, "model '%s' has too many requests in flight", model->name);
    struct tt_inference *inference = calloc(1, sizeof(*inference));
    inference->port = port;
    inference->model = model;
    inference->asks = true;
    __atomic_fetch_add(&model->asked_rows, rows, __ATOMIC_RELAXED);
    pthread_mutex_lock(&serving->lock);
    serving->live_count++;
    pthread_mutex_unlock(&serving->lock);
    *out_inference = inference;
    return TT_OK;
}

void *tt_inference_input(struct tt_inference *inference, int32_t input, size_t *out_size_bytes) {
    *out_size_bytes = inference->sizes_bytes[input];
    return inference->inputs[input];
}

void tt_inference_submit(struct tt_inference *inference, const struct tt_inference_options *options,
                         tt_inference_done_fn *done, void *context) {
    struct tt_serving *serving = inference->port->serving;
    inference->done = done;
    inference->context = context;
    inference->options = *options;
    inference->submitted = true;
    if (inference->asks) {
        /* No outputs. */
    } else if (inference->model->signature.input_count == 2) {
        const int32_t *a = inference->inputs[0], *b = inference->inputs[1];
        for (size_t i = 0; i < inference->sizes_bytes[0] / 4; i++) {
            ((int32_t *)inference->outputs[0])[i] = a[i] + b[i];
            ((int32_t *)inference->outputs[1])[i] = a[i] - b[i];
        }
    } else {
        memcpy(inference->outputs[0], inference->inputs[0], inference->sizes_bytes[0]);
    }
    pthread_mutex_lock(&serving->lock);
    serving->last_options = *options;
    if (strcmp(inference->model->name, "held") == 0) {
        inference->next = serving->held;
        serving->held = inference;
        serving->held_count++;
        pthread_cond_broadcast(&serving->changed);
    } else {
        fake_finish_locked(inference);
    }
    pthread_mutex_unlock(&serving->lock);
}

enum tt_err tt_inference_stream(struct tt_inference *inference, tt_inference_emitted_fn *emitted,
                                struct tt_error *why) {
    (void)inference;
    (void)emitted;
    return tt_fail(TT_ERR_UNSUPPORTED, why, "none of these models emits");
}
bool tt_inference_next_word(struct tt_inference *inference, struct tt_tensor_view *out_view) {
    (void)inference;
    (void)out_view;
    return false;
}

void tt_inference_cancel(struct tt_inference *inference) {
    struct tt_serving *serving = inference->port->serving;
    pthread_mutex_lock(&serving->lock);
    serving->cancelled_count++;
    for (struct tt_inference **at = &serving->held; *at; at = &(*at)->next)
        if (*at == inference) {
            *at = inference->next;
            serving->held_count--;
            inference->cancelled = true;
            fake_finish_locked(inference);
            break;
        }
    pthread_cond_broadcast(&serving->changed);
    pthread_mutex_unlock(&serving->lock);
}

void tt_inference_output(const struct tt_inference *inference, int32_t output,
                         struct tt_tensor_view *out_view) {
    *out_view = (struct tt_tensor_view){.bytes = inference->outputs[output],
                                        .size_bytes = inference->sizes_bytes[output],
                                        .shape = inference->shapes[output]};
}

int64_t tt_inference_since_at(const struct tt_inference *inference) {
    tt_assert(inference->submitted);
    return 1;
}

/* Each runs alone. */
bool tt_inference_step(const struct tt_inference *inference, int32_t index,
                       struct tt_inference_step *out_step) {
    (void)inference;
    (void)index;
    (void)out_step;
    return false;
}

void tt_inference_account(const struct tt_inference *inference,
                          struct tt_inference_account *out_account) {
    *out_account = (struct tt_inference_account){
        .batch_rows = inference->cancelled ? 0 : 1, .deadline_at = INT64_MAX, .why = ""};
}

void tt_inference_release(struct tt_inference *inference) {
    struct tt_serving *serving = inference->port->serving;
    for (int i = 0; i < 2; i++) {
        free(inference->inputs[i]);
        free(inference->outputs[i]);
    }
    free(inference);
    pthread_mutex_lock(&serving->lock);
    serving->live_count--;
    pthread_cond_broadcast(&serving->changed);
    pthread_mutex_unlock(&serving->lock);
}

void tt_serving_index(struct tt_port *port, tt_serving_index_fn *each, void *context) {
    struct tt_serving *serving = port->serving;
    for (int i = 0; i < FAKE_MODELS; i++)
        each(context, serving->models[i].name, "1", "READY", "", NULL);
    each(context, "loading", "1", "LOADING", "being loaded", NULL);
}

/* The fake shows no model in its index. */
const char *tt_served_model_policy(const struct tt_served_model *model) {
    (void)model;
    return "none";
}
int64_t tt_served_model_slo_ns(const struct tt_served_model *model) {
    (void)model;
    return TT_NEVER;
}

bool tt_serving_ready(const struct tt_serving *serving) {
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&serving->lock;
    pthread_mutex_lock(lock);
    bool ready = !serving->busy && !serving->retired;
    pthread_mutex_unlock(lock);
    return ready;
}

void tt_serving_retire(struct tt_serving *serving) {
    pthread_mutex_lock(&serving->lock);
    serving->retired = true;
    pthread_mutex_unlock(&serving->lock);
}

/* One version with statistics that say something. */
void tt_serving_stats(struct tt_port *port, const char *model, const char *version,
                      tt_serving_stats_fn *each, void *context) {
    (void)port;
    (void)version;
    struct tt_batch_stats by_size[TT_STATS_MAX_BATCH + 1] = {0};
    struct tt_model_stats stats = {.by_size = by_size};
    tt_counter_add(&stats.succeeded, 3);
    tt_counter_add(&stats.cancelled, 1);
    tt_counter_add(&stats.dropped[1], 1);
    tt_counter_add(&stats.rows, 4);
    tt_counter_add(&stats.batches, 2);
    tt_counter_add(&stats.queue_ns, 5000);
    tt_counter_add(&by_size[2].count, 2);
    tt_counter_add(&by_size[2].infer_ns, 700);
    each(context, model ? model : "identity", "1", &stats);
}

enum tt_err tt_serving_trace(struct tt_serving *serving, int64_t last_ns, struct tt_text *out_json,
                             struct tt_error *why) {
    (void)serving;
    (void)why;
    tt_text_printf(out_json, "{\"traceEvents\":[],\"last_ns\":%lld}", (long long)last_ns);
    return TT_OK;
}

const struct tt_catalogue *tt_port_catalogue(struct tt_port *port) {
    pthread_mutex_lock(&port->serving->lock);
    const struct tt_catalogue *catalogue = port->serving->catalogue;
    pthread_mutex_unlock(&port->serving->lock);
    return catalogue;
}

int64_t tt_port_generation(const struct tt_port *port) {
    (void)port;
    return 1;
}

void tt_metrics_write_models(const struct tt_catalogue *catalogue, struct tt_text *out_page) {
    tt_text_puts(out_page, "nv_inference_count{model=\"identity\"} 1\n");
    for (int32_t i = 0; catalogue && i < catalogue->count; i++)
        tt_text_printf(out_page, "nv_inference_count{model=\"%s\"} 1\n",
                       catalogue->entries[i].name);
}

void tt_metrics_write_server(struct tt_serving *serving, struct tt_text *out_page) {
    (void)serving;
    tt_text_puts(out_page, "tutti_scheduler_turns_total 1\n");
}

enum tt_err tt_dashboard_state(const struct tt_dashboard_source *source, const char *query,
                               struct tt_text *out_json, struct tt_error *why) {
    if (strcmp(query, "wrong") == 0)
        return tt_fail(TT_ERR_INVALID, why, "a wrong query");
    tt_text_printf(out_json, "{\"admin\":%d,\"query\":\"%s\"}", source->is_admin, query);
    return TT_OK;
}

#endif
