#include "cmd/cluster_models.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/text.h"
#include "cmd/outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS (100 * TT_MS)

struct change {
    const struct tt_cluster_models_options *options;
    json_t **nodes; /* [file->count]: what each frontend and backend said last; NULL: nothing */
    int32_t frontend;
    long long command;
};

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static enum tt_err ask(const struct change *self, int32_t number, const char *verb,
                       const char *what, json_t **out_answer, struct tt_error *why) {
    struct tt_text line;
    tt_text_init(&line);
    tt_text_printf(&line, "%s %s", verb, what);
    enum tt_err err =
        self->options->ask(self->options->context, number, tt_text_string(&line), out_answer, why);
    tt_text_fini(&line);
    return err;
}

/* A frontend that takes the command. False: there is none, which is said. */
static bool begin(struct change *self) {
    const struct tt_cluster_file *file = self->options->file;
    const char *verb = self->options->is_load ? "load" : "unload";
    struct tt_error why = {{0}};
    for (int32_t i = 0; i < file->count; i++) {
        json_t *answer;
        if (file->places[i].role != TT_ROLE_FRONTEND ||
            ask(self, i, verb, self->options->model, &answer, &why))
            continue;
        self->frontend = i;
        self->command = json_integer_value(json_object_get(answer, "command"));
        json_decref(answer);
        return true;
    }
    fprintf(stderr, "tutti cluster: no frontend takes the command: %s\n", why.text);
    return false;
}

/* What the node has now; what is new of it is shown. */
static void look_at(struct change *self, int32_t number) {
    const struct tt_cluster_place *place = &self->options->file->places[number];
    struct tt_error why;
    json_t *node, *former = self->nodes[number];
    enum tt_err err = ask(self, number, "model", self->options->model, &node, &why);
    if (err)
        node = json_pack("{s:s, s:s, s:s, s:n, s:s}", "name", place->name, "role",
                         tt_cluster_role_name(place->role), "state",
                         err == TT_ERR_TIMEOUT ? "SILENT" : "DOWN", "wanted", "reason", why.text);
    if (!former || strcmp(text_of(former, "state"), text_of(node, "state")) != 0)
        fprintf(stderr, "%-16s %s\n", place->name, text_of(node, "state"));
    json_decref(former);
    self->nodes[number] = node;
}

static bool is_away(const json_t *node) {
    return strcmp(text_of(node, "state"), "DOWN") == 0 ||
           strcmp(text_of(node, "state"), "SILENT") == 0;
}

/* `all`: also those that did not answer before, which may take a while. */
static void look(struct change *self, bool all) {
    const struct tt_cluster_file *file = self->options->file;
    for (int32_t i = 0; i < file->count; i++)
        if (file->places[i].role != TT_ROLE_SCHEDULER &&
            (all || !self->nodes[i] || !is_away(self->nodes[i])))
            look_at(self, i);
}

/* The state of the command: "DONE", "FAILED", or why it is not known. Owned by *out_answer. */
static const char *await(struct change *self, json_t **out_answer) {
    static const struct timespec pause = {.tv_nsec = LOOK_NS};
    int64_t until_at = tt_instant_add(tt_clock_now(), self->options->wait_ns);
    char number[24];
    snprintf(number, sizeof(number), "%lld", self->command);
    for (;;) {
        struct tt_error why;
        look(self, false);
        if (ask(self, self->frontend, "command", number, out_answer, &why)) {
            *out_answer = json_pack("{s:s, s:s}", "state", "UNKNOWN", "reason", why.text);
            return "UNKNOWN";
        }
        const char *state = text_of(*out_answer, "state");
        if (strcmp(state, "UNDER_WAY") != 0)
            return state;
        if (tt_clock_now() >= until_at) {
            json_object_set_new(*out_answer, "reason",
                                json_string("it is still under way; --wait is over"));
            return state;
        }
        json_decref(*out_answer);
        nanosleep(&pause, NULL);
    }
}

/* The node has what it should have. One that is away follows when it is back. */
static bool agrees(const json_t *node) {
    const json_t *wanted = json_object_get(node, "wanted");
    bool is_ready = strcmp(text_of(node, "state"), "READY") == 0;
    return !json_is_boolean(wanted) || is_ready == json_is_true(wanted);
}

static void print_node(const json_t *node) {
    const json_t *wanted = json_object_get(node, "wanted");
    printf("%-16s %-10s %-12s %-7s %s\n", text_of(node, "name"), text_of(node, "role"),
           text_of(node, "state"),
           !json_is_boolean(wanted) ? "-"
           : json_is_true(wanted)   ? "yes"
                                    : "no",
           text_of(node, "reason"));
}

/* Prints what came of it, and returns the exit code. */
static int show(struct change *self, const char *state, const char *reason) {
    const struct tt_cluster_models_options *options = self->options;
    bool is_done = strcmp(state, "DONE") == 0;
    json_t *nodes = json_array();
    if (!options->json)
        printf("%-16s %-10s %-12s %-7s %s\n", "node", "role", "state", "wanted", "reason");
    for (int32_t i = 0; i < options->file->count; i++) {
        if (!self->nodes[i])
            continue;
        is_done = is_done && agrees(self->nodes[i]);
        if (!options->json)
            print_node(self->nodes[i]);
        json_array_append(nodes, self->nodes[i]);
    }
    const char *verb = options->is_load ? "load" : "unload";
    if (options->json)
        tt_outcome_print_json(json_pack("{s:s, s:s, s:b, s:s, s:s, s:O}", "model", options->model,
                                        "action", verb, "done", (int)is_done, "state", state,
                                        "reason", reason, "nodes", nodes));
    json_decref(nodes);
    if (!is_done)
        fprintf(stderr, "tutti cluster: %s %s: %s\n", verb, options->model,
                *reason ? reason : "a node has not what it should have");
    return is_done ? EXIT_DONE : EXIT_FAILED;
}

int tt_cluster_models_change(const struct tt_cluster_models_options *options) {
    struct change self = {.options = options};
    if (!begin(&self))
        return EXIT_FAILED;
    self.nodes = calloc((size_t)options->file->count, sizeof(*self.nodes));
    if (!self.nodes) {
        fprintf(stderr, "tutti cluster: out of memory\n");
        return EXIT_FAILED;
    }
    json_t *answer;
    const char *state = await(&self, &answer);
    look(&self, true);
    int code = show(&self, state, text_of(answer, "reason"));
    json_decref(answer);
    for (int32_t i = 0; i < options->file->count; i++)
        json_decref(self.nodes[i]);
    free(self.nodes);
    return code;
}
