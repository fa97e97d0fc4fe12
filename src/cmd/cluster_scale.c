#include "cmd/cluster_scale.h"

#include <stdio.h>
#include <string.h>

enum action { SHOW, STOP, RESUME, PIN, PREEMPT, ACTIONS };

static const char *const actions[ACTIONS] = {"show", "stop", "resume", "pin", "preempt"};

const char *tt_cluster_scale_line(const char *action, const struct tt_cluster_scale_flags *flags,
                                  struct tt_text *out_line, bool *out_to_all) {
    int i = SHOW;
    while (i < ACTIONS && action && strcmp(actions[i], action) != 0)
        i++;
    if (i == ACTIONS)
        return "scale takes show, stop, resume, pin or preempt";
    bool has_pool = flags->pool != NULL, has_node = flags->node != NULL;
    bool has_devices = flags->devices > 0;
    if (has_devices != (i == PIN) || (i == PIN && !has_pool))
        return "scale pin needs --pool and --devices; nothing else takes --devices";
    if (has_node != (i == PREEMPT))
        return "scale preempt needs --node; nothing else takes it";
    if (has_pool && (i == SHOW || i == PREEMPT))
        return "--pool goes with scale stop, resume and pin";
    *out_to_all = i == STOP || i == RESUME || i == PIN;
    tt_text_printf(out_line, "scale %s", actions[i]);
    if (i == PIN)
        tt_text_printf(out_line, "\t%s\t%d", flags->pool, flags->devices);
    else if (i == PREEMPT)
        tt_text_printf(out_line, "\t%s", flags->node);
    else if (i != SHOW)
        tt_text_printf(out_line, "\t%s", has_pool ? flags->pool : "");
    return NULL;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void print_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (json_is_integer(value))
        printf(" %7lld", (long long)json_integer_value(value));
    else
        printf(" %7s", "-");
}

void tt_cluster_scale_print_pools(const json_t *pools) {
    size_t i, k;
    const json_t *pool, *node;
    printf("%-16s %7s %7s %7s %7s %7s  %-8s %-12s %s\n", "pool", "wanted", "target", "asked",
           "ready", "most", "mode", "stage", "nodes");
    json_array_foreach(pools, i, pool) {
        printf("%-16s", text_of(pool, "name"));
        print_number(pool, "wanted");
        print_number(pool, "target");
        print_number(pool, "asked");
        print_number(pool, "ready");
        print_number(pool, "most");
        printf("  %-8s %-12s", text_of(pool, "mode"), text_of(pool, "stage"));
        json_array_foreach(json_object_get(pool, "nodes"), k, node) {
            const char *state = text_of(node, "state");
            if (strcmp(state, "ABSENT") != 0)
                printf(" %s%s%s", text_of(node, "name"), strcmp(state, "SERVING") ? ":" : "",
                       strcmp(state, "SERVING") ? state : "");
        }
        printf("\n");
        const json_t *start_up = json_object_get(pool, "start_up_s");
        if (json_is_real(start_up))
            printf("  start-up: %.3g s, confidence %.2f\n", json_real_value(start_up),
                   json_real_value(json_object_get(pool, "start_up_confidence")));
        if (*text_of(pool, "last"))
            printf("  last: %s\n", text_of(pool, "last"));
    }
}

void tt_cluster_scale_print(const json_t *scaling) {
    printf("provider: %s\n", text_of(scaling, "provider"));
    tt_cluster_scale_print_pools(json_object_get(scaling, "pools"));
}
