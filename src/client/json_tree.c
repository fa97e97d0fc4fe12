#include "client/json_tree.h"

#include <stdio.h>

json_t *tt_json_tree_load(const char *text, size_t length, size_t flags, json_error_t *out_error) {
    size_t values = 1;
    for (size_t i = 0; i < length; i++)
        values += text[i] == ',' || text[i] == '{' || text[i] == '[';
    if (values <= TT_JSON_TREE_VALUES)
        return json_loadb(text, length, flags, out_error);
    if (out_error) {
        *out_error = (json_error_t){.line = -1, .column = -1};
        snprintf(out_error->text, sizeof(out_error->text), "more than %d values",
                 (int)TT_JSON_TREE_VALUES);
    }
    return NULL;
}
