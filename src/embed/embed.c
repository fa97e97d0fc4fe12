/* The functions of include/tutti/tutti.h: one port of the server, used under a lock by the threads
 * that submit, and drained by a thread that calls `done`.
 *
 * Life of a call: taken by tutti_submit(), in flight until the port reports its end, in the list of
 * ended calls until `done` returned, and kept for the next request. Its id is its index and a
 * generation, which is another one for each request. */
#include <tutti/tutti.h>

#include "base/array.h"
#include "base/list.h"
#include "base/log/log.h"
#include "base/threads/eventcount.h"
#include "base/threads/lock.h"
#include "embed/embed_options.h"
#include "net/kserve/kserve_operations.h"
#include "net/kserve/kserve_pages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct tutti_error) == sizeof(struct tt_error), "the same struct");
_Static_assert((int)TUTTI_INVALID == (int)TT_ERR_INVALID &&
                   (int)TUTTI_NOT_FOUND == (int)TT_ERR_NOT_FOUND &&
                   (int)TUTTI_NO_MEMORY == (int)TT_ERR_NO_MEMORY &&
                   (int)TUTTI_IO == (int)TT_ERR_IO &&
                   (int)TUTTI_UNAVAILABLE == (int)TT_ERR_UNAVAILABLE &&
                   (int)TUTTI_BUSY == (int)TT_ERR_BUSY &&
                   (int)TUTTI_UNSUPPORTED == (int)TT_ERR_UNSUPPORTED &&
                   (int)TUTTI_TIMEOUT == (int)TT_ERR_TIMEOUT &&
                   (int)TUTTI_CANCELLED == (int)TT_ERR_CANCELLED &&
                   (int)TUTTI_INTERNAL == (int)TT_ERR_INTERNAL,
               "a code is an error");

struct call {
    struct tutti_server *server;
    tutti_word_fn *word; /* NULL: it is not streamed */
    tutti_done_fn *done;
    void *context;
    uint32_t index, generation;
    bool in_use, is_ended;
    struct tt_kserve_request request;
    struct tt_served_model *model;
    struct tt_inference *inference;
    enum tt_err err;
    struct tt_error why;
    struct tt_list_node node;      /* in `free` or `ended` of the server */
    struct tt_list_node word_node; /* in `worded` of the server */
};

struct tutti_server {
    char **texts; /* the repository, then the options; owned */
    int32_t text_count;
    struct tt_embed_options options;
    struct tt_control *control;
    struct tt_log log;
    struct tt_eventcount wake; /* the library's thread waits there */
    pthread_t thread;
    struct tt_lock lock; /* guards all that follows, and the port */
    struct tt_port *port;
    struct call **calls;
    int64_t call_count, call_capacity, in_flight;
    struct tt_list free, ended;
    struct tt_list worded; /* calls in flight with words to pass on */
    bool closing;
};

static enum tutti_code code_of(enum tt_err err) { return (enum tutti_code)err; }
static struct tt_error *error_of(struct tutti_error *why) { return (struct tt_error *)why; }

/* ---- calls, under the lock ---- */

static struct call *take_call(struct tutti_server *self) {
    struct tt_list_node *node = tt_list_first(&self->free);
    struct call *call;
    if (node) {
        tt_list_remove(node);
        call = TT_CONTAINER_OF(node, struct call, node);
    } else {
        if (!TT_ARRAY_RESERVE(self->calls, &self->call_capacity, self->call_count + 1))
            return NULL;
        call = calloc(1, sizeof(*call));
        if (!call)
            return NULL;
        call->server = self;
        call->index = (uint32_t)self->call_count;
        self->calls[self->call_count++] = call;
    }
    tt_assert(!call->in_use);
    call->in_use = true;
    call->is_ended = false;
    call->generation++;
    call->inference = NULL;
    call->err = TT_OK;
    call->why.text[0] = '\0';
    tt_kserve_request_init(&call->request);
    return call;
}

static void give_call(struct call *call) {
    struct tutti_server *self = call->server;
    tt_assert(call->in_use);
    if (call->inference)
        tt_inference_release(call->inference);
    tt_kserve_request_fini(&call->request);
    call->in_use = false;
    tt_list_push_front(&self->free, &call->node);
}

static uint64_t id_of(const struct call *call) {
    return (uint64_t)call->generation << 32 | call->index;
}

static void on_emitted(void *context, struct tt_inference *inference) {
    struct call *call = context;
    tt_assert(call->inference == inference);
    if (!tt_list_linked(&call->word_node))
        tt_list_push_back(&call->server->worded, &call->word_node);
}

static void on_done(void *context, struct tt_inference *inference, enum tt_err err,
                    const char *why) {
    struct call *call = context;
    tt_assert(call->inference == inference);
    call->is_ended = true;
    if (tt_list_linked(&call->word_node)) /* its words are passed on before its end */
        tt_list_remove(&call->word_node);
    call->err = err ? tt_fail(err, &call->why, "%s", why && *why ? why : tt_err_name(err)) : TT_OK;
    tt_list_push_back(&call->server->ended, &call->node);
}

/* ---- the library's thread ---- */

static struct tutti_tensor tensor_of(const struct tt_tensor_spec *spec,
                                     const struct tt_tensor_view *view) {
    return (struct tutti_tensor){.name = spec->name,
                                 .datatype = tt_dtype_name(spec->dtype),
                                 .shape = view->shape.dims,
                                 .rank = view->shape.rank,
                                 .bytes = view->bytes,
                                 .size_bytes = view->size_bytes};
}

/* Passes on the words that are there. Without the lock while it calls: a word stays until this
 * thread takes the next one. */
static void pass_words(struct call *call) {
    struct tt_lock *lock = &call->server->lock;
    const struct tt_signature *signature = tt_served_model_signature(call->model);
    int32_t emitted = tt_served_model_emitted(call->model);
    for (;;) {
        struct tt_tensor_view view;
        tt_lock_take(lock);
        bool any = tt_inference_next_word(call->inference, &view);
        tt_lock_give(lock);
        if (!any)
            return;
        const struct tutti_tensor word = tensor_of(&signature->outputs[emitted], &view);
        const struct tutti_answer answer = {
            .id = id_of(call), .code = TUTTI_OK, .why = "", .outputs = &word, .output_count = 1};
        call->word(call->context, &answer);
    }
}

/* Without the lock: the outputs are the inference's until it is released. */
static void tell(struct call *call) {
    if (call->word)
        pass_words(call);
    struct tutti_tensor outputs[TT_MAX_TENSORS];
    struct tutti_answer answer = {
        .id = id_of(call), .code = code_of(call->err), .why = call->why.text, .outputs = outputs};
    const struct tt_signature *signature = tt_served_model_signature(call->model);
    struct tt_tensor_view views[TT_MAX_TENSORS];
    for (int32_t i = 0; !call->err && i < signature->output_count; i++) {
        tt_inference_output(call->inference, i, &views[i]);
        outputs[answer.output_count++] = tensor_of(&signature->outputs[i], &views[i]);
    }
    call->done(call->context, &answer);
}

static void *thread_main(void *context) {
    struct tutti_server *self = context;
    pthread_setname_np(pthread_self(), "tutti-answers");
    for (;;) {
        tt_lock_take(&self->lock);
        tt_port_drain(self->port);
        struct tt_list_node *worded = tt_list_first(&self->worded);
        struct tt_list_node *node = worded ? NULL : tt_list_first(&self->ended);
        if (worded)
            tt_list_remove(worded);
        if (node)
            tt_list_remove(node);
        bool is_over = self->closing && self->in_flight == 0;
        tt_lock_give(&self->lock);
        if (worded) {
            pass_words(TT_CONTAINER_OF(worded, struct call, word_node));
        } else if (node) {
            struct call *call = TT_CONTAINER_OF(node, struct call, node);
            tell(call);
            tt_lock_take(&self->lock);
            self->in_flight--;
            give_call(call);
            tt_lock_give(&self->lock);
        } else if (is_over) {
            return NULL;
        } else {
            tt_eventcount_wait(&self->wake, TT_NEVER);
        }
    }
}

/* From threads of the server, and from the port's own functions. */
static void wake(void *context) {
    struct tutti_server *self = context;
    tt_eventcount_notify(&self->wake);
}

/* ---- opening and closing ---- */

static void say(void *context, enum tt_log_level level, const char *line) {
    struct tutti_server *self = context;
    if (self->options.logs)
        tt_log_write(&self->log, level, NULL, "%s", line);
}

const char *tutti_version(void) { return TUTTI_VERSION; }

void tutti_free(void *take_memory) { free(take_memory); }

/* The server refers to the strings as long as it lives. */
static enum tt_err copy_texts(struct tutti_server *self, const char *repository,
                              const char *const *options, int32_t count, struct tt_error *why) {
    if (!repository || count < 0 || (count > 0 && !options))
        return tt_fail(TT_ERR_INVALID, why, "%s",
                       repository ? "options is NULL" : "the repository's path is NULL");
    self->texts = calloc((size_t)count + 1, sizeof(*self->texts));
    for (int32_t i = 0; self->texts && i <= count; i++) {
        const char *text = i ? options[i - 1] : repository;
        if (!text)
            return tt_fail(TT_ERR_INVALID, why, "option %d is NULL; \"key=value\" is needed",
                           i - 1);
        self->texts[i] = strdup(text);
        if (!self->texts[i])
            break;
        self->text_count++;
    }
    return self->text_count == count + 1 ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
}

static enum tt_err open_server(struct tutti_server *self, struct tt_error *why) {
    struct tt_control_options control = self->options.control;
    control.repositories = (const char *const *)self->texts;
    control.repository_count = 1;
    control.loader.say = say;
    control.loader.say_context = self;
    enum tt_err err = tt_control_open(&control, &self->control, why);
    if (!err)
        err = tt_serving_open_port(tt_control_serving(self->control), wake, self, &self->port, why);
    if (err)
        return err;
    int failed = pthread_create(&self->thread, NULL, thread_main, self);
    return failed ? tt_fail(TT_ERR_IO, why, "cannot start a thread: %s", strerror(failed)) : TT_OK;
}

static void free_server(struct tutti_server *self) {
    tt_port_close(self->port);
    tt_control_close(self->control);
    for (int64_t i = 0; i < self->call_count; i++)
        free(self->calls[i]);
    free(self->calls);
    for (int32_t i = 0; i < self->text_count; i++)
        free(self->texts[i]);
    free(self->texts);
    tt_log_fini(&self->log);
    tt_lock_fini(&self->lock);
    free(self);
}

enum tutti_code tutti_open(const char *repository, const char *const *options, int32_t option_count,
                           struct tutti_server **out_server, struct tutti_error *why) {
    struct tutti_server *self = calloc(1, sizeof(*self));
    if (!self)
        return code_of(tt_fail(TT_ERR_NO_MEMORY, error_of(why), "out of memory for a server"));
    tt_lock_init(&self->lock);
    tt_eventcount_init(&self->wake);
    tt_log_init(&self->log, STDERR_FILENO, false);
    tt_list_init(&self->free);
    tt_list_init(&self->ended);
    tt_list_init(&self->worded);
    enum tt_err err = copy_texts(self, repository, options, option_count, error_of(why));
    if (!err)
        err = tt_embed_options_init(&self->options, (const char *const *)self->texts + 1,
                                    option_count, error_of(why));
    if (!err)
        err = open_server(self, error_of(why));
    if (err) {
        free_server(self);
        return code_of(err);
    }
    *out_server = self;
    return TUTTI_OK;
}

void tutti_close(struct tutti_server *take_server) {
    if (!take_server)
        return;
    tt_lock_take(&take_server->lock);
    take_server->closing = true;
    for (int64_t i = 0; i < take_server->call_count; i++) {
        const struct call *call = take_server->calls[i];
        if (call->in_use && !call->is_ended)
            tt_inference_cancel(call->inference);
    }
    tt_lock_give(&take_server->lock);
    tt_eventcount_notify(&take_server->wake);
    pthread_join(take_server->thread, NULL);
    free_server(take_server);
}

/* ---- requests ---- */

static enum tt_err check_tensor(const struct tutti_tensor *tensor, int32_t index,
                                struct tt_error *why) {
    if (!tensor->name || !tensor->datatype)
        return tt_fail(TT_ERR_INVALID, why, "input %d has no %s", index,
                       tensor->name ? "datatype" : "name");
    if (tensor->rank < 0 || tensor->rank > TT_MAX_RANK)
        return tt_fail(TT_ERR_INVALID, why, "input '%s' has %d dimensions; 0 to %d are possible",
                       tensor->name, tensor->rank, TT_MAX_RANK);
    if (tensor->rank > 0 && !tensor->shape)
        return tt_fail(TT_ERR_INVALID, why, "input '%s' has no shape", tensor->name);
    for (int32_t d = 0; d < tensor->rank; d++)
        if (tensor->shape[d] < 0)
            return tt_fail(TT_ERR_INVALID, why, "input '%s': dimension %d is negative",
                           tensor->name, d);
    return tensor->bytes || tensor->size_bytes == 0
               ? TT_OK
               : tt_fail(TT_ERR_INVALID, why, "input '%s' has no bytes", tensor->name);
}

static enum tt_err set_name(char *to, size_t capacity, const char *name, const char *what,
                            struct tt_error *why) {
    size_t length = name ? strlen(name) : 0;
    if (length >= capacity)
        return tt_fail(TT_ERR_NOT_FOUND, why, "no model has a %s of %zu bytes", what, length);
    memcpy(to, name ? name : "", length + 1);
    return TT_OK;
}

static enum tt_err fill_request(struct tt_kserve_request *to, const struct tutti_request *from,
                                struct tt_error *why) {
    enum tt_err err =
        set_name(to->target.model, sizeof(to->target.model), from->model, "name", why);
    if (!err)
        err =
            set_name(to->target.version, sizeof(to->target.version), from->version, "version", why);
    if (!err && (from->input_count < 0 || from->input_count > TT_MAX_TENSORS))
        err = tt_fail(TT_ERR_INVALID, why, "%d inputs; 0 to %d are possible", from->input_count,
                      TT_MAX_TENSORS);
    if (!err && from->input_count > 0 && !from->inputs)
        err = tt_fail(TT_ERR_INVALID, why, "inputs is NULL");
    if (!err && (from->timeout_us < 0 || from->timeout_us > INT64_MAX / 1000))
        err = tt_fail(TT_ERR_INVALID, why, "timeout_us is %lld; 0 to %lld are possible",
                      (long long)from->timeout_us, (long long)INT64_MAX / 1000);
    if (!err && from->priority < 0)
        err = tt_fail(TT_ERR_INVALID, why, "priority must not be negative");
    for (int32_t i = 0; !err && i < from->input_count; i++) {
        const struct tutti_tensor *tensor = &from->inputs[i];
        struct tt_kserve_input *input = &to->inputs[i];
        err = check_tensor(tensor, i, why);
        if (err)
            break;
        size_t datatype_bytes = strlen(tensor->datatype);
        *input = (struct tt_kserve_input){.name = tensor->name,
                                          .name_bytes = strlen(tensor->name),
                                          .datatype = tensor->datatype,
                                          .datatype_bytes = datatype_bytes,
                                          .dtype = tt_dtype_parse(tensor->datatype, datatype_bytes),
                                          .shape.rank = tensor->rank,
                                          .data = tensor->bytes ? tensor->bytes : "",
                                          .data_bytes = tensor->size_bytes,
                                          .size_bytes = tensor->size_bytes};
        for (int32_t d = 0; d < tensor->rank; d++)
            input->shape.dims[d] = tensor->shape[d];
    }
    to->input_count = err ? 0 : from->input_count;
    to->options = (struct tt_inference_options){.timeout_ns = err ? 0 : from->timeout_us * 1000,
                                                .priority = from->priority};
    return err;
}

/* `word` NULL: it is not streamed. */
static enum tutti_code submit(struct tutti_server *server, const struct tutti_request *request,
                              tutti_word_fn *word, tutti_done_fn *done, void *context,
                              uint64_t *out_id, struct tutti_error *why) {
    if (!done)
        return code_of(tt_fail(TT_ERR_INVALID, error_of(why), "done is NULL"));
    tt_lock_take(&server->lock);
    struct call *call = server->closing ? NULL : take_call(server);
    if (!call) {
        enum tt_err err = server->closing ? TT_ERR_UNAVAILABLE : TT_ERR_NO_MEMORY;
        tt_lock_give(&server->lock);
        return code_of(tt_fail(err, error_of(why), "%s",
                               err == TT_ERR_NO_MEMORY ? "out of memory for a request"
                                                       : "the server is being closed"));
    }
    enum tt_err err = fill_request(&call->request, request, error_of(why));
    if (!err)
        err = tt_serving_find(server->port, call->request.target.model,
                              call->request.target.version, &call->model, error_of(why));
    if (!err)
        err = tt_kserve_begin(&call->request, server->port, call->model, &call->inference,
                              error_of(why));
    if (!err && word)
        err = tt_inference_stream(call->inference, on_emitted, error_of(why));
    if (err) {
        give_call(call);
    } else {
        call->word = word;
        call->done = done;
        call->context = context;
        if (out_id)
            *out_id = id_of(call);
        server->in_flight++;
        tt_inference_submit(call->inference, &call->request.options, on_done, call);
    }
    tt_lock_give(&server->lock);
    return code_of(err);
}

enum tutti_code tutti_submit(struct tutti_server *server, const struct tutti_request *request,
                             tutti_done_fn *done, void *context, uint64_t *out_id,
                             struct tutti_error *why) {
    return submit(server, request, NULL, done, context, out_id, why);
}

enum tutti_code tutti_stream(struct tutti_server *server, const struct tutti_request *request,
                             tutti_word_fn *word, tutti_done_fn *done, void *context,
                             uint64_t *out_id, struct tutti_error *why) {
    if (!word)
        return code_of(tt_fail(TT_ERR_INVALID, error_of(why), "word is NULL"));
    return submit(server, request, word, done, context, out_id, why);
}

enum tutti_code tutti_cancel(struct tutti_server *server, uint64_t id) {
    uint32_t index = (uint32_t)id, generation = (uint32_t)(id >> 32);
    enum tutti_code code = TUTTI_NOT_FOUND;
    tt_lock_take(&server->lock);
    const struct call *call = index < server->call_count ? server->calls[index] : NULL;
    if (call && call->in_use && !call->is_ended && call->generation == generation) {
        tt_inference_cancel(call->inference);
        code = TUTTI_OK;
    }
    tt_lock_give(&server->lock);
    return code;
}

enum tutti_code tutti_statistics(struct tutti_server *server, char **out_json,
                                 struct tutti_error *why) {
    struct tt_text json;
    struct tt_kserve_statistics statistics;
    tt_text_init(&json);
    tt_lock_take(&server->lock);
    const struct tt_kserve_service service = {.serving = tt_control_serving(server->control),
                                              .port = server->port,
                                              .server_version = TUTTI_VERSION};
    enum tt_err err = tt_kserve_statistics_init(&statistics, &service, NULL, error_of(why));
    if (!err) {
        tt_kserve_write_statistics(&statistics, &json);
        tt_kserve_statistics_fini(&statistics);
        if (json.failed)
            err = tt_fail(TT_ERR_NO_MEMORY, error_of(why), "out of memory for the statistics");
    }
    tt_lock_give(&server->lock);
    if (err)
        tt_text_fini(&json);
    else
        *out_json = json.bytes;
    return code_of(err);
}
