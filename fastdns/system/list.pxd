"""Doubly linked lists whose nodes lie in the structs that are listed, as in Linux's list.h. They are circular: the list's own node closes the circle.

No memory of its own and no locks: who owns the list says who may use it. A node is in one list at a time; removing it needs no list.
"""

cdef struct ListNode:
    ListNode *next
    ListNode *previous

cdef struct List:           # list_init before anything else; it never moves
    ListNode ends           # `next` is the first node, `previous` the last


cdef inline void list_init(List *list) noexcept nogil:
    list.ends.next = list.ends.previous = &list.ends


cdef inline bint list_is_empty(const List *list) noexcept nogil:
    return list.ends.next == &list.ends


cdef inline void list_insert(ListNode *node, ListNode *previous, ListNode *next) noexcept nogil:
    """Between two neighbours."""
    node.previous = previous
    node.next = next
    next.previous = node
    previous.next = node


cdef inline void list_append(List *list, ListNode *node) noexcept nogil:
    list_insert(node, list.ends.previous, &list.ends)


cdef inline void list_prepend(List *list, ListNode *node) noexcept nogil:
    list_insert(node, &list.ends, list.ends.next)


cdef inline void list_remove(ListNode *node) noexcept nogil:
    node.next.previous = node.previous
    node.previous.next = node.next


cdef inline void list_move_all(List *list, List *source) noexcept nogil:
    """The nodes of `source`, which is not empty and is afterwards, become those of `list`, which had none."""
    list.ends = source.ends
    list.ends.next.previous = list.ends.previous.next = &list.ends
    list_init(source)


# ---- NULL: there is none ----

cdef inline ListNode *list_first(const List *list) noexcept nogil:
    return list.ends.next if list.ends.next != &list.ends else NULL


cdef inline ListNode *list_last(const List *list) noexcept nogil:
    return list.ends.previous if list.ends.previous != &list.ends else NULL


cdef inline ListNode *list_next(const List *list, const ListNode *node) noexcept nogil:
    return node.next if node.next != &list.ends else NULL


cdef inline ListNode *list_previous(const List *list, const ListNode *node) noexcept nogil:
    return node.previous if node.previous != &list.ends else NULL


cdef inline void *list_container(ListNode *node, size_t offset) noexcept nogil:
    """The struct whose node lies `offset` octets behind its beginning; NULL for NULL."""
    return <char *>node - offset if node != NULL else NULL
