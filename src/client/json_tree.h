/* JSON that another process sent, as a tree. Three bytes of text may become two hundred of a tree,
 * so text of too many values is refused before there is one. Implemented in json_tree.c. */
#ifndef TT_CLIENT_JSON_TREE_H
#define TT_CLIENT_JSON_TREE_H

#include <jansson.h>

enum { TT_JSON_TREE_VALUES = 65536 }; /* an index of 10,000 models has fewer */

/* json_loadb(), or NULL, with a reason, for text of more values. Every comma and every opening
 * bracket counts as one, also within strings. */
json_t *tt_json_tree_load(const char *text, size_t length, size_t flags, json_error_t *out_error);

#endif
