/* The file of tokens: any bytes are a table that keeps its rules, or an error with the line; read
 * again they are the same identities. The same bytes as the header Authorization must not crash.
 * Build with -fsanitize=fuzzer,address,undefined. */
/* covers: net/access/token_file.c */
#include "net/access/token_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *copy = malloc(size ? size : 1); /* so that a read behind the end is seen */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    struct tt_token_table *table, *again;
    struct tt_error why = {{0}};
    enum tt_err err = tt_token_table_parse("tokens", copy, size, NULL, &table, &why);
    tt_assert((err == TT_OK) == (why.text[0] == '\0'));
    tt_assert(err == TT_OK || strncmp(why.text, "tokens:", 7) == 0);
    if (!err) {
        tt_token_table_check(table);
        err = tt_token_table_parse("tokens", copy, size, table, &again, &why);
        tt_assert(err == TT_OK);
        tt_assert(again->count == table->count);
        for (int32_t i = 0; i < table->count; i++) {
            tt_assert(again->entries[i].identity == table->entries[i].identity);
            tt_assert(tt_token_table_find(again, &table->entries[i].digest) ==
                      table->entries[i].identity);
        }
        tt_token_table_unref(table);
        tt_token_table_check(again);
        tt_token_table_unref(again);
    }
    struct tt_token token;
    tt_token_read(copy, size, &token);
    free(copy);
    return 0;
}
