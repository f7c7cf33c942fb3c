package io.arioso;

/**
 * The names of topics that a subscription was told, by stream-wide id: two arrays, the slot being the id's low bits. Ids are dense,
 * so that up to the limit each has a slot of its own; above it one takes another's place and is asked for again.
 */
final class TopicNames {
    private static final int SLOTS_MAX = 1 << 20;

    private int[] ids = new int[256];
    private String[] names = new String[256];

    String get(int id) {
        int slot = id & (names.length - 1);
        return ids[slot] == id ? names[slot] : null;
    }

    void put(int id, String name) {
        while (names[id & (names.length - 1)] != null && names.length < SLOTS_MAX) {
            grow();
        }
        int slot = id & (names.length - 1);
        ids[slot] = id;
        names[slot] = name;
    }

    private void grow() {
        int[] oldIds = ids;
        String[] oldNames = names;
        ids = new int[2 * oldIds.length];
        names = new String[2 * oldIds.length];
        for (int old = 0; old < oldIds.length; old++) {
            if (oldNames[old] != null) {
                int slot = oldIds[old] & (names.length - 1);
                ids[slot] = oldIds[old];
                names[slot] = oldNames[old];
            }
        }
    }
}
