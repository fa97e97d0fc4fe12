/* tutti cluster: the nodes of a cluster, draining one, handing the primary over, placing models,
 * scaling, loading and unloading. */
#include "cmd/cluster_models.h"
#include "cmd/cluster_placement.h"
#include "cmd/cluster_scale.h"
#include "cmd/cluster_tls_flags.h"
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "base/instant.h"
#include "fleet/fleet_node.h"
#include "fleet/visit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum action {
    ACTION_STATUS,
    ACTION_DRAIN,
    ACTION_PROMOTE,
    ACTION_PLACEMENT,
    ACTION_SCALE,
    ACTION_LOAD,
    ACTION_UNLOAD
};

static const char default_spec[] = "static:build/cluster/nodes";
static const char *const default_file = default_spec + sizeof("static:") - 1;

struct flags {
    int32_t action;
    const char *first, *second, *key;
    struct tt_flag_list moves;
    struct tt_cluster_scale_flags scale;
    struct tt_cluster_tls_files tls;
    int64_t timeout_ns, wait_ns;
    bool json;
};

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_CHOICE, "ACTION", action, true,
               "status, drain, promote, placement, scale, load or unload",
               .choices = "status|drain|promote|placement|scale|load|unload", .default_value = -1),
    TT_OPERAND(TT_FLAG_TEXT, "NODE|MODEL|STEP|SPEC", first, false,
               "drain: the node; load, unload: the model; placement: show, plan, stop or undo; "
               "scale: show, stop, resume, pin or "
               "preempt; else the cluster, static:FILE or etcd://HOST:PORT/NAME"),
    TT_OPERAND(TT_FLAG_TEXT, "SPEC", second, false,
               "drain, load, unload, placement, scale: the cluster (default: "
               "static:build/cluster/nodes, that of make "
               "cluster)"),
    TT_LIST("move", "MODEL=POOL", moves, TT_FLAG_MAX_LIST,
            "placement plan: move this model; without any, the primary searches a plan"),
    TT_TEXT("pool", "POOL", scale.pool, NULL,
            "scale: pin this pool; stop or resume it (default: all of them)"),
    TT_INTEGER("devices", "N", scale.devices, 1, INT32_MAX, 0, "scale pin: its devices"),
    TT_TEXT("node", "NAME", scale.node, NULL,
            "scale preempt: this backend will be preempted; it is drained and replaced"),
    TT_TEXT("cluster-key", "FILE", key, NULL, "the key that all nodes share"),
    TT_CLUSTER_TLS_FLAGS(tls),
    TT_DECIMAL("timeout", "SECONDS", timeout_ns, 0.01, 600, 2, "how long to wait for each node",
               .scale = TT_S),
    TT_DECIMAL("wait", "SECONDS", wait_ns, 0.01, 86400, 600,
               "load, unload: how long to wait until all nodes have done it", .scale = TT_S),
    TT_SWITCH("json", json, "print JSON"),
};

struct cluster {
    struct tt_cluster_file file;
    struct tt_cluster_key key;
    struct tt_cluster_tls tls;
    const struct flags *flags;
};

static enum tt_err ask(const void *context, int32_t number, const char *line, json_t **out_node,
                       struct tt_error *why) {
    const struct cluster *self = context;
    const struct tt_visit visit = {.file = &self->file,
                                   .number = (uint16_t)number,
                                   .key = &self->key,
                                   .tls = &self->tls,
                                   .release = tt_release_parse(TUTTI_VERSION),
                                   .timeout_ns = self->flags->timeout_ns};
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = tt_visit(&visit, line, &text, why);
    if (!err && strncmp(tt_text_string(&text), "error: ", 7) == 0)
        err = tt_fail(TT_ERR_UNAVAILABLE, why, "%s: %s", self->file.places[number].name,
                      tt_text_string(&text) + 7);
    json_error_t ignored;
    *out_node = err ? NULL : json_loads(tt_text_string(&text), 0, &ignored);
    if (!err && !*out_node)
        err = tt_fail(TT_ERR_INVALID, why, "%s: the answer is no JSON",
                      self->file.places[number].name);
    tt_text_fini(&text);
    return err;
}

static const char *text_of(const json_t *node, const char *key) {
    const char *text = json_string_value(json_object_get(node, key));
    return text ? text : "";
}

static bool is_primary(const json_t *node) {
    return json_is_true(json_object_get(node, "primary"));
}

static void print_count(const json_t *node, const char *key, char out[24]) {
    const json_t *value = json_object_get(node, key);
    snprintf(out, 24, "-");
    if (json_is_integer(value))
        snprintf(out, 24, "%lld", (long long)json_integer_value(value));
}

static void print_head(void) {
    printf("%-16s %-10s %8s  %-10s %-8s %7s %6s\n", "node", "role", "pid", "state", "epoch",
           "devices", "models");
}

static void print_node(const json_t *node) {
    char pid[24], devices[24], models[24], epoch[24] = "-";
    print_count(node, "pid", pid);
    print_count(node, "devices", devices);
    print_count(node, "models", models);
    long long number = json_integer_value(json_object_get(node, "epoch"));
    if (number > 0)
        snprintf(epoch, sizeof(epoch), "%lld.%lld", number >> 16, number & 0xffff);
    printf("%-16s %-10s %8s  %-10s %-8s %7s %6s%s\n", text_of(node, "name"), text_of(node, "role"),
           pid, text_of(node, "state"), epoch, devices, models, is_primary(node) ? " primary" : "");
}

/* ---- S9: how many devices the cluster needs ---- */

/* The backends that the primary may grant batches to, and what each has. */
static json_t *backends_of(const json_t *nodes) {
    json_t *backends = json_array();
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node) {
        bool is_backend = strcmp(text_of(node, "role"), "backend") == 0;
        json_t *devices = json_object_get(node, "devices");
        if (is_backend && json_is_integer(devices))
            json_array_append_new(backends,
                                  json_pack("{s:s, s:s, s:O, s:O}", "name", text_of(node, "name"),
                                            "state", text_of(node, "state"), "devices", devices,
                                            "models", json_object_get(node, "models")));
    }
    return backends;
}

/* The domains of the primary, which has one; empty without a primary. */
static json_t *domains_of(const json_t *nodes) {
    static const char *const keys[] = {
        "policy",     "devices", "devices_wanted", "devices_wanted_fewest", "devices_wanted_most",
        "confidence", "scaling"};
    json_t *domains = json_array(), *node;
    size_t i;
    json_array_foreach(nodes, i, node) {
        if (!is_primary(node))
            continue;
        json_t *domain = json_pack("{s:i}", "domain", 0);
        for (size_t k = 0; k < TT_COUNT(keys); k++) {
            json_t *value = json_object_get(node, keys[k]);
            json_object_set_new(domain, keys[k], value ? json_incref(value) : json_null());
        }
        json_object_set_new(domain, "backends", backends_of(nodes));
        json_array_append_new(domains, domain);
        break;
    }
    return domains;
}

static void print_domain(const json_t *domain) {
    const json_t *wanted = json_object_get(domain, "devices_wanted");
    printf("\ndomain %lld (%s): %lld devices; ",
           (long long)json_integer_value(json_object_get(domain, "domain")),
           text_of(domain, "policy"),
           (long long)json_integer_value(json_object_get(domain, "devices")));
    if (json_is_integer(wanted))
        printf("wanted: %lld (%lld to %lld), confidence %.2f\n",
               (long long)json_integer_value(wanted),
               (long long)json_integer_value(json_object_get(domain, "devices_wanted_fewest")),
               (long long)json_integer_value(json_object_get(domain, "devices_wanted_most")),
               json_real_value(json_object_get(domain, "confidence")));
    else
        printf("wanted: not known before 10 s with requests\n");
}

/* Backends on which models take another time than the primary plans with. */
static void print_paces(const json_t *nodes) {
    size_t i, k;
    const json_t *node, *pace;
    json_array_foreach(nodes, i, node) {
        if (!is_primary(node))
            continue;
        json_array_foreach(json_object_get(node, "paces"), k, pace)
            printf("model %s version %s takes %.2f times as long on %s as %s plans with\n",
                   text_of(pace, "model"), text_of(pace, "version"),
                   json_real_value(json_object_get(pace, "pace")), text_of(pace, "node"),
                   text_of(node, "name"));
    }
}

/* S4: what the primary subtracts for the messages of each backend. */
static void print_delays(const json_t *nodes) {
    size_t i, k;
    const json_t *node, *delay;
    json_array_foreach(nodes, i, node) json_array_foreach(json_object_get(node, "delays"), k, delay)
        printf("messages of a batch on %s take %.0f us, and %.1f us per row%s\n",
               text_of(delay, "node"), json_real_value(json_object_get(delay, "control_us")),
               json_real_value(json_object_get(delay, "data_us_per_row")),
               json_integer_value(json_object_get(delay, "batches")) > 0
                   ? ""
                   : ", as the description says");
}

/* DONE if a primary is there. */
static int show_status(const struct cluster *self) {
    json_t *nodes = json_array();
    bool has_primary = false;
    if (!self->flags->json)
        print_head();
    for (int32_t i = 0; i < self->file.count; i++) {
        const struct tt_cluster_place *place = &self->file.places[i];
        struct tt_error why;
        json_t *node;
        enum tt_err err = ask(self, i, "status", &node, &why);
        if (err)
            node =
                json_pack("{s:s, s:s, s:n, s:b, s:i, s:s, s:s}", "name", place->name, "role",
                          tt_cluster_role_name(place->role), "pid", "primary", 0, "epoch", 0,
                          "state", err == TT_ERR_TIMEOUT ? "SILENT" : "DOWN", "reason", why.text);
        has_primary |= is_primary(node);
        if (!self->flags->json)
            print_node(node);
        json_array_append_new(nodes, node);
    }
    json_t *domains = domains_of(nodes);
    if (self->flags->json) {
        tt_outcome_print_json(json_pack("{s:o, s:o}", "nodes", nodes, "domains", domains));
    } else {
        size_t i;
        json_t *domain;
        json_array_foreach(domains, i, domain) {
            const json_t *scaling = json_object_get(domain, "scaling");
            print_domain(domain);
            if (json_is_array(scaling))
                tt_cluster_scale_print_pools(scaling);
        }
        print_paces(nodes);
        print_delays(nodes);
        json_decref(nodes);
        json_decref(domains);
    }
    return has_primary ? EXIT_DONE : EXIT_FAILED;
}

static int act(const struct cluster *self, int32_t number, const char *line) {
    struct tt_error why;
    json_t *node;
    enum tt_err err = ask(self, number, line, &node, &why);
    if (err) {
        fprintf(stderr, "tutti cluster: %s\n", why.text);
        return EXIT_FAILED;
    }
    if (self->flags->json)
        tt_outcome_print_json(node);
    else {
        print_node(node);
        json_decref(node);
    }
    return EXIT_DONE;
}

/* The first scheduler that answers and is what is wanted; -1: none. */
static int32_t find_scheduler(const struct cluster *self, bool wants_primary) {
    for (int32_t i = 0; i < self->file.count; i++) {
        struct tt_error why;
        json_t *node;
        if (self->file.places[i].role != TT_ROLE_SCHEDULER || ask(self, i, "status", &node, &why))
            continue;
        bool is_wanted = is_primary(node) == wants_primary;
        json_decref(node);
        if (is_wanted)
            return i;
    }
    fprintf(stderr, "tutti cluster: no %s scheduler answers\n",
            wants_primary ? "primary" : "spare");
    return -1;
}

static int promote(const struct cluster *self) {
    int32_t number = find_scheduler(self, false);
    return number < 0 ? EXIT_FAILED : act(self, number, "promote");
}

/* They keep it for the time when they are primary. `primary`: that was asked; -1: none is. */
static void tell_spares(const struct cluster *self, const char *line, int32_t primary) {
    for (int32_t i = 0; i < self->file.count; i++) {
        struct tt_error why;
        json_t *answer;
        if (i == primary || self->file.places[i].role != TT_ROLE_SCHEDULER)
            continue;
        if (ask(self, i, line, &answer, &why))
            fprintf(stderr, "tutti cluster: %s\n", why.text);
        else
            json_decref(answer);
    }
}

/* Asks the primary, and shows its answer. */
static int ask_primary(const struct cluster *self, const char *line, bool to_all,
                       void (*print)(const json_t *answer)) {
    struct tt_error why;
    json_t *answer;
    int32_t number = find_scheduler(self, true);
    enum tt_err err = number < 0 ? TT_OK : ask(self, number, line, &answer, &why);
    if (to_all && !err)
        tell_spares(self, line, number);
    if (number < 0)
        return EXIT_FAILED;
    if (err) {
        fprintf(stderr, "tutti cluster: %s\n", why.text);
        return EXIT_FAILED;
    }
    if (self->flags->json) {
        tt_outcome_print_json(answer);
    } else {
        print(answer);
        json_decref(answer);
    }
    return EXIT_DONE;
}

static int change_models(const struct cluster *self) {
    const struct tt_cluster_models_options options = {.file = &self->file,
                                                      .ask = ask,
                                                      .context = self,
                                                      .model = self->flags->first,
                                                      .is_load = self->flags->action == ACTION_LOAD,
                                                      .wait_ns = self->flags->wait_ns,
                                                      .json = self->flags->json};
    return tt_cluster_models_change(&options);
}

static int act_on(const struct flags *flags, const char *line, bool to_all) {
    bool drains = flags->action == ACTION_DRAIN, scales = flags->action == ACTION_SCALE;
    bool changes = flags->action == ACTION_LOAD || flags->action == ACTION_UNLOAD;
    bool has_step = drains || changes || scales || flags->action == ACTION_PLACEMENT;
    const char *spec = has_step ? flags->second : flags->first;
    struct cluster self = {.flags = flags};
    struct tt_error why;
    uint16_t number;
    enum tt_err err = tt_fleet_describe(spec ? spec : default_spec, &flags->tls.etcd,
                                        drains ? flags->first : NULL, flags->key, &self.file,
                                        &self.key, &number, &why);
    if (err && !spec && access(default_file, F_OK))
        err = tt_fail(TT_ERR_NOT_FOUND, &why,
                      "%s, which make cluster writes, is not there: name the cluster, "
                      "static:FILE or etcd://HOST:PORT/NAME",
                      default_file);
    if (!err && (err = tt_cluster_tls_init(&self.tls, &flags->tls, &why)))
        tt_cluster_file_fini(&self.file);
    if (err)
        return tt_outcome_print_error("cluster", err, &why);
    int code = drains                            ? act(&self, number, "drain")
               : changes                         ? change_models(&self)
               : flags->action == ACTION_PROMOTE ? promote(&self)
               : flags->action == ACTION_STATUS  ? show_status(&self)
               : scales ? ask_primary(&self, line, to_all, tt_cluster_scale_print)
                        : ask_primary(&self, line, to_all, tt_cluster_placement_print);
    tt_cluster_file_fini(&self.file);
    tt_cluster_tls_fini(&self.tls);
    return code;
}

/* The line of placement or scale, if the flags go together; else NULL, or why they do not. */
static const char *make_line(const struct flags *flags, struct tt_text *out_line,
                             bool *out_to_all) {
    if (flags->action == ACTION_SCALE)
        return tt_cluster_scale_line(flags->first, &flags->scale, out_line, out_to_all);
    if (flags->scale.pool || flags->scale.node || flags->scale.devices > 0)
        return "--pool, --devices and --node need scale";
    if (flags->action != ACTION_PLACEMENT)
        return flags->moves.count > 0 ? "--move needs placement plan" : NULL;
    return tt_cluster_placement_line(flags->first, &flags->moves, out_line, out_to_all)
               ? NULL
               : "placement takes show, plan, stop or undo, and --move with plan";
}

static int run(void *options) {
    const struct flags *flags = options;
    bool drains = flags->action == ACTION_DRAIN, to_all = false;
    bool has_line = flags->action == ACTION_PLACEMENT || flags->action == ACTION_SCALE;
    bool changes = flags->action == ACTION_LOAD || flags->action == ACTION_UNLOAD;
    if (drains && !flags->first)
        return tt_flags_refuse(&tt_verb_cluster, "drain needs NODE");
    if (changes && !flags->first)
        return tt_flags_refuse(&tt_verb_cluster, "load and unload need MODEL");
    if (!drains && !changes && !has_line && flags->second)
        return tt_flags_refuse(&tt_verb_cluster, "unexpected argument '%s'", flags->second);
    if (flags->action == ACTION_SCALE && flags->moves.count > 0)
        return tt_flags_refuse(&tt_verb_cluster, "--move needs placement plan");
    struct tt_text line;
    tt_text_init(&line);
    const char *problem = make_line(flags, &line, &to_all);
    int code = problem ? tt_flags_refuse(&tt_verb_cluster, "%s", problem)
                       : act_on(flags, tt_text_string(&line), to_all);
    tt_text_fini(&line);
    return code;
}

const struct tt_verb tt_verb_cluster = {
    .name = "cluster",
    .summary = "show the nodes of a cluster, drain one, promote the spare scheduler, load, unload "
               "and place models, scale",
    .usage = "status [SPEC] | drain NODE [SPEC] | promote [SPEC] |\n"
             "       load MODEL [SPEC] | unload MODEL [SPEC] |\n"
             "       placement [show|plan|stop|undo] [SPEC] [OPTIONS] |\n"
             "       scale [show|stop|resume|pin|preempt] [SPEC] [OPTIONS]",
    .description =
        "Asks the processes of a cluster, which tutti serve starts with a role. status prints each "
        "node with its role, process, state, the epoch that it obeys, and a backend's devices and "
        "models; then how many devices the load of the last seconds needs. drain takes a node out "
        "of "
        "service: a frontend is not ready and refuses new requests, a scheduler hands over, and a "
        "backend finishes what it has. promote makes the first spare scheduler primary. "
        "placement shows which pool of backends has which model, and the plan that changes it: "
        "plan "
        "begins one, by the loads that were measured or by --move, stop drops it, and undo moves "
        "the models back. After stop and undo no plan is made by itself until plan without --move. "
        "scale shows how many devices of each pool are wanted, asked for and ready: stop and "
        "resume end and begin changes, pin holds a number, and preempt announces that a backend "
        "will be lost. load and unload change a model at all nodes, whatever their mode of "
        "model control, and show how far each of them is. The cluster goes on with it if "
        "they are interrupted.\n\n"
        "Exit code: 0 done, or status found a primary; 1 no primary, a node refused, failed or "
        "does not answer, or --wait is over; 2 usage error, or SPEC cannot be read.",
    TT_VERB_RUNS(flag_rows, run)};
