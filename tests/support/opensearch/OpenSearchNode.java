import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.opensearch.Version;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.PluginInfo;

/**
 * One OpenSearch node, configured by HOME/config/opensearch.yml: {@code java OpenSearchNode SCRATCH HOME}.
 *
 * <p>SIGTERM stops it cleanly. When its standard input ends, its launcher is gone: then it stops as well, and removes
 * the directory SCRATCH, which nobody else will.
 */
public final class OpenSearchNode extends Node {
    /** Version 3 renamed some of these from ...Plugin to ...ModulePlugin. */
    private static final List<String> PLUGINS = List.of(
        "org.opensearch.transport.Netty4",
        "org.opensearch.index.reindex.Reindex",
        "org.opensearch.painless.Painless",
        "org.opensearch.security.OpenSearchSecurity"
    );

    private static volatile boolean orphaned = false;

    @SuppressWarnings({"unchecked", "rawtypes"}) // a collection of Class in version 2, of PluginInfo in version 3
    private OpenSearchNode(Path home, Collection plugins) {
        super(
            InternalSettingsPreparer.prepareEnvironment(
                Settings.builder().put("path.home", home).build(), Map.of(), null, () -> "unnamed"
            ),
            plugins,
            false
        );
    }

    public static void main(String[] args) {
        try {
            Node node = new OpenSearchNode(Path.of(args[1]), pluginsOnClassPath());
            Runtime.getRuntime().addShutdownHook(new Thread(() -> shutDown(node, Path.of(args[0]))));
            new Thread(OpenSearchNode::exitWithLauncher).start(); // and keeps the JVM up: OpenSearch does not
            node.start();
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1); // the threads of a half-started node would linger
        }
    }

    private static List<Object> pluginsOnClassPath() {
        List<Object> found = new ArrayList<>();
        for (String prefix : PLUGINS) {
            for (String suffix : List.of("Plugin", "ModulePlugin")) {
                try {
                    Class<?> type = Class.forName(prefix + suffix);
                    String name = type.getName();
                    found.add(Version.CURRENT.major < 3 ? type
                        : new PluginInfo(name, name, "", Version.CURRENT, "11", name, null, List.of(), false));
                } catch (ClassNotFoundException e) {
                    // the other name, or no security
                }
            }
        }
        return found;
    }

    private static void exitWithLauncher() {
        try {
            while (System.in.read() >= 0) { }
        } catch (IOException e) {
            // as good as the end of input
        }
        orphaned = true;
        System.exit(0);
    }

    private static void shutDown(Node node, Path scratch) {
        try {
            node.close();
            node.awaitClose(10, TimeUnit.SECONDS);
        } catch (Exception e) {
            e.printStackTrace();
        }
        if (orphaned) {
            try (Stream<Path> files = Files.walk(scratch)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            } catch (Exception e) {
                // other nodes of the cluster remove the same files at the same time
            }
        }
    }
}
