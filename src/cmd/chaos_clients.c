#include "cmd/chaos_clients.h"

#include "base/clock.h"
#include "base/threads/counter.h"
#include "base/threads/flag.h"
#include "client/http_fetch.h"
#include "client/json_tree.h"
#include "client/kserve_client.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BODY_LENGTH = 8, AGAIN_NS = 20 * 1000 * 1000 };

struct frontend {
    struct tt_http_address address;
    struct tt_counter kills;
};

struct client {
    struct tt_chaos_clients *clients;
    int32_t frontend;
    struct tt_chaos_account account;
    pthread_t thread;
    bool runs;
};

struct tt_chaos_clients {
    struct frontend *frontends; /* [frontend_count] */
    struct client *threads;     /* [thread_count] */
    int32_t frontend_count, thread_count;
    int64_t give_up_ns;
    struct tt_text path, body;
    char *outputs; /* of every right answer */
    struct tt_flag stopping;
};

/* ---- the request ---- */

/* The first model that is ready; NULL: none. The caller frees it. */
static char *first_ready(const struct tt_text *index) {
    json_error_t ignored;
    json_t *models = tt_json_tree_load(index->bytes, index->length, 0, &ignored), *model;
    size_t i;
    char *name = NULL;
    json_array_foreach(models, i, model) {
        const char *state = json_string_value(json_object_get(model, "state"));
        const char *text = json_string_value(json_object_get(model, "name"));
        if (!name && state && text && strcmp(state, "READY") == 0)
            name = strdup(text);
    }
    json_decref(models);
    return name;
}

static enum tt_err draw_body(struct tt_chaos_clients *self, uint64_t seed, struct tt_error *why) {
    const struct tt_http_address *address = &self->frontends[0].address;
    struct tt_text metadata;
    tt_text_init(&metadata);
    enum tt_err err =
        tt_http_fetch(address, tt_text_string(&self->path), NULL, self->give_up_ns, &metadata, why);
    if (err)
        return err;
    struct tt_kserve_client_model model;
    struct tt_kserve_client_body body = {{0}};
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 1);
    err = tt_kserve_client_model_read(metadata.bytes, metadata.length, &model, why);
    tt_text_fini(&metadata);
    if (!err)
        err = tt_kserve_client_body_draw(&model, 1, BODY_LENGTH, false, &prng, &body, why);
    if (err)
        return err;
    tt_text_puts(&self->body, "{");
    tt_text_append(&self->body, body.json.bytes, body.json.length);
    tt_kserve_client_body_fini(&body);
    return TT_OK;
}

/* The answer's outputs as text. NULL: there are none. The caller frees it. */
static char *outputs_of(const struct tt_text *answer) {
    json_error_t ignored;
    json_t *all = json_loadb(answer->bytes, answer->length, 0, &ignored);
    json_t *outputs = json_object_get(all, "outputs");
    char *text = outputs ? json_dumps(outputs, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(all);
    return text;
}

static enum tt_err try_once(struct tt_chaos_clients *self, struct tt_error *why) {
    struct tt_text answer;
    tt_text_init(&answer);
    enum tt_err err = tt_http_fetch(&self->frontends[0].address, tt_text_string(&self->path),
                                    tt_text_string(&self->body), self->give_up_ns, &answer, why);
    if (err)
        return err;
    self->outputs = outputs_of(&answer);
    tt_text_fini(&answer);
    return self->outputs ? TT_OK : tt_fail(TT_ERR_INVALID, why, "the answer has no outputs");
}

static enum tt_err make_request(struct tt_chaos_clients *self, uint64_t seed,
                                struct tt_error *why) {
    struct tt_text index;
    tt_text_init(&index);
    enum tt_err err = tt_http_fetch(&self->frontends[0].address, "/v2/repository/index", "{}",
                                    self->give_up_ns, &index, why);
    if (err)
        return err;
    char *name = first_ready(&index);
    tt_text_fini(&index);
    if (!name)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "no model of the cluster is ready");
    tt_kserve_client_path(name, &self->path);
    free(name);
    err = draw_body(self, seed, why);
    tt_text_puts(&self->path, "/infer");
    return err ? err : try_once(self, why);
}

/* ---- accounts ---- */

static void pause_ns(int64_t ns) {
    struct timespec time = {.tv_sec = (time_t)(ns / TT_S), .tv_nsec = (long)(ns % TT_S)};
    nanosleep(&time, NULL);
}

static void count_answer(struct client *self, struct tt_text *take_answer) {
    char *outputs = outputs_of(take_answer);
    bool is_right = outputs && strcmp(outputs, self->clients->outputs) == 0;
    free(outputs);
    tt_text_fini(take_answer);
    is_right ? self->account.answered++ : self->account.wrong++;
}

/* What the fetch says of a request without an answer. */
static void count_failure(struct client *self, enum tt_err err, const struct tt_error *why,
                          bool was_killed) {
    bool has_status = strstr(why->text, "HTTP status ") != NULL;
    if (has_status)
        self->account.refused++;
    else if (err == TT_ERR_UNAVAILABLE && was_killed)
        self->account.gone++;
    else
        self->account.lost++;
}

static void *run(void *argument) {
    struct client *self = argument;
    struct tt_chaos_clients *clients = self->clients;
    struct frontend *frontend = &clients->frontends[self->frontend];
    while (!tt_flag_is_raised(&clients->stopping)) {
        struct tt_text answer;
        struct tt_error why = {{0}};
        tt_text_init(&answer);
        int64_t kills = tt_counter_get(&frontend->kills);
        enum tt_err err =
            tt_http_fetch(&frontend->address, tt_text_string(&clients->path),
                          tt_text_string(&clients->body), clients->give_up_ns, &answer, &why);
        if (err && strstr(why.text, "connection refused")) { /* it was not accepted */
            pause_ns(AGAIN_NS);
            continue;
        }
        self->account.accepted++;
        if (err)
            count_failure(self, err, &why, tt_counter_get(&frontend->kills) != kills);
        else
            count_answer(self, &answer);
        if (err)
            pause_ns(AGAIN_NS);
    }
    return NULL;
}

/* ---- life ---- */

enum tt_err tt_chaos_clients_open(const char *const *urls, int32_t url_count, int32_t threads,
                                  int64_t give_up_ns, uint64_t seed,
                                  struct tt_chaos_clients **out_clients, struct tt_error *why) {
    tt_assert(url_count > 0);
    tt_assert(threads > 0);
    struct tt_chaos_clients *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->frontends = calloc((size_t)url_count, sizeof(*self->frontends));
    self->threads = calloc((size_t)threads, sizeof(*self->threads));
    tt_text_init(&self->path);
    tt_text_init(&self->body);
    self->give_up_ns = give_up_ns;
    enum tt_err err =
        self->frontends && self->threads ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (; !err && self->frontend_count < url_count; self->frontend_count++)
        err = tt_http_address_parse(urls[self->frontend_count], 80,
                                    &self->frontends[self->frontend_count].address, why);
    if (!err)
        err = make_request(self, seed, why);
    if (err) {
        tt_chaos_clients_close(self);
        return err;
    }
    self->thread_count = threads;
    *out_clients = self;
    return TT_OK;
}

enum tt_err tt_chaos_clients_start(struct tt_chaos_clients *self, struct tt_error *why) {
    for (int32_t i = 0; i < self->thread_count; i++) {
        struct client *client = &self->threads[i];
        client->clients = self;
        client->frontend = i % self->frontend_count;
        int problem = pthread_create(&client->thread, NULL, run, client);
        if (problem)
            return tt_fail(TT_ERR_IO, why, "cannot start a thread: %s", strerror(problem));
        client->runs = true;
    }
    return TT_OK;
}

void tt_chaos_clients_killing(struct tt_chaos_clients *self, int32_t url) {
    tt_counter_add(&self->frontends[url].kills, 1);
}

void tt_chaos_clients_stop(struct tt_chaos_clients *self) {
    tt_flag_raise(&self->stopping);
    for (int32_t i = 0; i < self->thread_count; i++)
        if (self->threads[i].runs)
            pthread_join(self->threads[i].thread, NULL);
}

struct tt_chaos_account tt_chaos_clients_account(const struct tt_chaos_clients *self) {
    struct tt_chaos_account sum = {0};
    for (int32_t i = 0; i < self->thread_count; i++) {
        const struct tt_chaos_account *one = &self->threads[i].account;
        sum.accepted += one->accepted;
        sum.answered += one->answered;
        sum.refused += one->refused;
        sum.gone += one->gone;
        sum.lost += one->lost;
        sum.wrong += one->wrong;
    }
    return sum;
}

void tt_chaos_clients_close(struct tt_chaos_clients *take_self) {
    if (!take_self)
        return;
    free(take_self->frontends);
    free(take_self->threads);
    tt_text_fini(&take_self->path);
    tt_text_fini(&take_self->body);
    free(take_self->outputs);
    free(take_self);
}
