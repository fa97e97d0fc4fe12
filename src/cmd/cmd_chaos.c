/* tutti chaos: kills and freezes the processes of a cluster while clients keep account. */
#include "cmd/chaos_clients.h"
#include "cmd/chaos_process.h"
#include "cmd/cluster_tls_flags.h"
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "base/clock.h"
#include "base/prng.h"
#include "fleet/fleet_node.h"
#include "fleet/visit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_URLS = 64, VISIT_MS = 2000, MAX_VISITS = 100 };

struct flags {
    const char *cluster, *key;
    struct tt_cluster_tls_files tls;
    int64_t duration_ns, give_up_ns, seed;
    int32_t clients;
    bool kills_only, json;
};

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "SPEC", cluster, true,
               "the cluster, static:FILE or etcd://HOST:PORT/NAME, on this machine"),
    TT_DECIMAL("seconds", "N", duration_ns, 0.1, 86400, 10, "how long faults happen",
               .scale = TT_S),
    TT_INTEGER("seed", "S", seed, 0, INT64_MAX, 1, "seed of faults and requests"),
    TT_INTEGER("clients", "N", clients, 1, 256, 8, "clients that each wait for their answer"),
    TT_DECIMAL("give-up", "SECONDS", give_up_ns, 0.1, 3600, 30,
               "a request without an answer for so long is lost", .scale = TT_S),
    TT_SWITCH("kills-only", kills_only, "no process is frozen"),
    TT_TEXT("cluster-key", "FILE", key, NULL, "the key that all nodes share"),
    TT_CLUSTER_TLS_FLAGS(tls),
    TT_SWITCH("json", json, "print JSON"),
};

struct chaos {
    const struct flags *flags;
    struct tt_cluster_file file;
    struct tt_cluster_key key;
    struct tt_cluster_tls tls;
    struct tt_chaos_process *processes; /* [file.count] */
    int32_t *url_of;                    /* [file.count]: of a frontend; -1: none */
    char *urls[MAX_URLS];
    int32_t url_count;
    struct tt_chaos_clients *clients;
    struct tt_prng prng;
    int64_t kills, freezes;
    int32_t dead; /* nodes that did not answer at the start */
};

/* ---- the nodes ---- */

static enum tt_err look_at(struct chaos *self, int32_t number, json_t **out_node,
                           struct tt_error *why) {
    const struct tt_visit visit = {.file = &self->file,
                                   .number = (uint16_t)number,
                                   .key = &self->key,
                                   .tls = &self->tls,
                                   .release = tt_release_parse(TUTTI_VERSION),
                                   .timeout_ns = VISIT_MS * TT_MS};
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = tt_visit(&visit, "status", &text, why);
    json_error_t ignored;
    *out_node = err ? NULL : json_loads(tt_text_string(&text), 0, &ignored);
    tt_text_fini(&text);
    return err || *out_node ? err
                            : tt_fail(TT_ERR_INVALID, why, "%s: the answer is no JSON",
                                      self->file.places[number].name);
}

static enum tt_err find_node(struct chaos *self, int32_t number, struct tt_error *why) {
    json_t *node;
    enum tt_err err = look_at(self, number, &node, why);
    if (err)
        return err;
    pid_t pid = (pid_t)json_integer_value(json_object_get(node, "pid"));
    const char *url = json_string_value(json_object_get(node, "http"));
    if (url && *url && self->file.places[number].role == TT_ROLE_FRONTEND &&
        self->url_count < MAX_URLS) {
        self->urls[self->url_count] = strdup(url);
        self->url_of[number] = self->url_count++;
    }
    json_decref(node);
    return tt_chaos_process_find(&self->processes[number], pid, why);
}

/* A node without a process, or that does not answer, is left alone: the others must do without. */
static bool is_dead(enum tt_err err) { return err == TT_ERR_UNAVAILABLE || err == TT_ERR_TIMEOUT; }

static enum tt_err find_nodes(struct chaos *self, struct tt_error *why) {
    self->processes = calloc((size_t)self->file.count, sizeof(*self->processes));
    self->url_of = calloc((size_t)self->file.count, sizeof(*self->url_of));
    if (!self->processes || !self->url_of)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < self->file.count; i++) {
        self->url_of[i] = -1;
        err = find_node(self, i, why);
        if (is_dead(err)) {
            self->dead++;
            fprintf(stderr, "tutti chaos: %s is dead: %s\n", self->file.places[i].name, why->text);
            err = TT_OK;
        }
    }
    if (!err && self->url_count == 0)
        err = tt_fail(TT_ERR_UNAVAILABLE, why, "no frontend of the cluster has an HTTP address");
    return err;
}

/* ---- faults ---- */

static int64_t draw_ns(struct chaos *self, int64_t low_ms, int64_t high_ms) {
    return (low_ms + (int64_t)tt_prng_below(&self->prng, (uint64_t)(high_ms - low_ms))) * TT_MS;
}

static void wait_ns(int64_t ns) {
    struct timespec time = {.tv_sec = (time_t)(ns / TT_S), .tv_nsec = (long)(ns % TT_S)};
    nanosleep(&time, NULL);
}

static void say(const struct chaos *self, const char *what, int32_t number) {
    if (!self->flags->json)
        printf("%s %s\n", what, self->file.places[number].name);
    fflush(stdout);
}

static enum tt_err kill_one(struct chaos *self, int32_t number, struct tt_error *why) {
    if (self->url_of[number] >= 0)
        tt_chaos_clients_killing(self->clients, self->url_of[number]);
    say(self, "kill  ", number);
    self->kills++;
    tt_chaos_process_kill(&self->processes[number]);
    wait_ns(draw_ns(self, 50, 500));
    return tt_chaos_process_start(&self->processes[number], why);
}

static void freeze_one(struct chaos *self, int32_t number) {
    say(self, "freeze", number);
    self->freezes++;
    tt_chaos_process_freeze(&self->processes[number]);
    wait_ns(draw_ns(self, 50, 1000));
    tt_chaos_process_thaw(&self->processes[number]);
}

/* One fault at a time. What was killed is started again. */
static enum tt_err make_faults(struct chaos *self, struct tt_error *why) {
    int64_t until_at = tt_instant_add(tt_clock_now(), self->flags->duration_ns);
    enum tt_err err = TT_OK;
    while (!err && tt_clock_now() < until_at && !tt_interrupted) {
        wait_ns(draw_ns(self, 100, 600));
        int32_t number = (int32_t)tt_prng_below(&self->prng, (uint64_t)self->file.count);
        if (self->processes[number].pid == 0)
            continue; /* dead */
        bool kills = self->flags->kills_only || tt_prng_below(&self->prng, 2) == 0;
        if (kills)
            err = kill_one(self, number, why);
        else
            freeze_one(self, number);
    }
    return err;
}

/* Waits until nothing is under way, and checks what the frontends themselves count. */
static enum tt_err check_frontends(struct chaos *self, struct tt_error *why) {
    for (int32_t i = 0; i < self->file.count; i++) {
        json_int_t under_way = -1, accepted = 0, ended = 0;
        for (int32_t visit = 0; self->url_of[i] >= 0 && under_way != 0; visit++) {
            json_t *node;
            if (look_at(self, i, &node, why) == TT_OK) {
                under_way = json_integer_value(json_object_get(node, "under_way"));
                accepted = json_integer_value(json_object_get(node, "accepted"));
                ended = json_integer_value(json_object_get(node, "answered")) +
                        json_integer_value(json_object_get(node, "failed")) +
                        json_integer_value(json_object_get(node, "cancelled"));
                json_decref(node);
            }
            if (visit == MAX_VISITS)
                return tt_fail(TT_ERR_TIMEOUT, why, "%s still has %lld requests under way",
                               self->file.places[i].name, (long long)under_way);
            wait_ns(under_way ? 100 * TT_MS : 0);
        }
        if (accepted > ended)
            return tt_fail(TT_ERR_INTERNAL, why, "%s accepted %lld requests and ended %lld",
                           self->file.places[i].name, (long long)accepted, (long long)ended);
    }
    return TT_OK;
}

/* ---- the report ---- */

static int show(const struct chaos *self, const struct tt_chaos_account *account) {
    bool holds = account->accepted == account->answered + account->refused + account->gone;
    if (self->flags->json) {
        tt_outcome_print_json(json_pack(
            "{s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "seed",
            (json_int_t)self->flags->seed, "kills", (json_int_t)self->kills, "freezes",
            (json_int_t)self->freezes, "dead", self->dead, "accepted",
            (json_int_t)account->accepted, "answered", (json_int_t)account->answered, "refused",
            (json_int_t)account->refused, "gone", (json_int_t)account->gone, "lost",
            (json_int_t)account->lost, "wrong", (json_int_t)account->wrong, "holds", holds));
        return holds ? EXIT_DONE : EXIT_FAILED;
    }
    printf("%" PRId64 " kills, %" PRId64 " freezes, seed %" PRId64 "\n", self->kills, self->freezes,
           self->flags->seed);
    printf("accepted %" PRId64 " %s answered %" PRId64 " + refused %" PRId64 " + gone %" PRId64
           "\n",
           account->accepted, holds ? "=" : "is not", account->answered, account->refused,
           account->gone);
    if (!holds)
        printf("lost %" PRId64 ", wrong %" PRId64 "\n", account->lost, account->wrong);
    return holds ? EXIT_DONE : EXIT_FAILED;
}

static enum tt_err torment(struct chaos *self, struct tt_chaos_account *out_account,
                           struct tt_error *why) {
    tt_prng_init(&self->prng, (uint64_t)self->flags->seed, 0);
    enum tt_err err = find_nodes(self, why);
    if (!err)
        err = tt_chaos_clients_open((const char *const *)self->urls, self->url_count,
                                    self->flags->clients, self->flags->give_up_ns,
                                    (uint64_t)self->flags->seed, &self->clients, why);
    if (err)
        return err;
    err = tt_chaos_clients_start(self->clients, why);
    if (!err)
        err = make_faults(self, why);
    tt_chaos_clients_stop(self->clients);
    *out_account = tt_chaos_clients_account(self->clients);
    return err ? err : check_frontends(self, why);
}

static void close_chaos(struct chaos *self) {
    tt_chaos_clients_close(self->clients);
    for (int32_t i = 0; self->processes && i < self->file.count; i++)
        tt_chaos_process_fini(&self->processes[i]);
    for (int32_t i = 0; i < self->url_count; i++)
        free(self->urls[i]);
    free(self->processes);
    free(self->url_of);
    tt_cluster_file_fini(&self->file);
    tt_cluster_tls_fini(&self->tls);
}

static int run(void *options) {
    const struct flags *flags = options;
    struct chaos self = {.flags = flags};
    struct tt_error why;
    uint16_t number;
    enum tt_err err = tt_fleet_describe(flags->cluster, &flags->tls.etcd, NULL, flags->key,
                                        &self.file, &self.key, &number, &why);
    if (!err && (err = tt_cluster_tls_init(&self.tls, &flags->tls, &why)))
        tt_cluster_file_fini(&self.file);
    if (err)
        return tt_outcome_print_error("chaos", err, &why);
    tt_outcome_catch_interrupt();
    struct tt_chaos_account account = {0};
    err = torment(&self, &account, &why);
    int code = err ? EXIT_FAILED : show(&self, &account);
    if (err)
        fprintf(stderr, "tutti chaos: %s\n", why.text);
    close_chaos(&self);
    return code;
}

const struct tt_verb tt_verb_chaos = {
    .name = "chaos",
    .summary = "kill and freeze processes of a cluster under load, and account for every request",
    .usage = "SPEC [OPTIONS]",
    .description =
        "Sends requests to the frontends of a cluster whose processes all run on this machine. "
        "Meanwhile it kills nodes and starts them again as they were, or freezes them for a while, "
        "one at a time, as the seed says. A node that is dead from the start is named and left "
        "alone. "
        "Each request that was accepted must be answered rightly, "
        "refused, or gone with a frontend that was killed.\n\n"
        "Exit code: 0 accepted = answered + refused + gone; 1 a request was lost or answered "
        "wrongly, or a node could not be reached or started; 2 usage error.",
    TT_VERB_RUNS(flag_rows, run)};
