#include "cmd/cluster_placement.h"

#include <stdio.h>
#include <string.h>

bool tt_cluster_placement_line(const char *action, const struct tt_flag_list *moves,
                               struct tt_text *out_line, bool *out_to_all) {
    static const char *const actions[] = {"show", "plan", "stop", "undo"};
    size_t i = 0;
    while (i < TT_COUNT(actions) && action && strcmp(actions[i], action) != 0)
        i++;
    bool is_plan = action && strcmp(action, "plan") == 0;
    if (i == TT_COUNT(actions) || (moves->count > 0 && !is_plan))
        return false;
    *out_to_all = moves->count == 0 && action && i > 0;
    tt_text_printf(out_line, "placement %s", moves->count > 0 ? "move" : actions[action ? i : 0]);
    for (int32_t k = 0; k < moves->count; k++)
        tt_text_printf(out_line, "\t%s", moves->texts[k]);
    return true;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void print_names(const json_t *names) {
    size_t i;
    const json_t *name;
    json_array_foreach(names, i, name) printf(" %s", json_string_value(name));
}

void tt_cluster_placement_print(const json_t *placement) {
    size_t i;
    const json_t *each;
    printf("%-16s %8s %8s  %s\n", "pool", "devices", "requests", "models");
    json_array_foreach(json_object_get(placement, "pools"), i, each) {
        printf("%-16s %4lld/%-3lld %8lld ", text_of(each, "name"),
               (long long)json_integer_value(json_object_get(each, "usable")),
               (long long)json_integer_value(json_object_get(each, "devices")),
               (long long)json_integer_value(json_object_get(each, "requests")));
        print_names(json_object_get(each, "models"));
        printf("\n");
    }
    printf("plans %s; plan %s", text_of(placement, "mode"), text_of(placement, "stage"));
    if (*text_of(placement, "waits_for"))
        printf(", waits for node %s", text_of(placement, "waits_for"));
    printf("\n");
    json_array_foreach(json_object_get(placement, "moves"), i, each) printf(
        "  %s: %s to %s\n", text_of(each, "model"), text_of(each, "from"), text_of(each, "to"));
    if (*text_of(placement, "last"))
        printf("last: %s\n", text_of(placement, "last"));
}
