package kafka.server

import java.net.URL
import java.util
import scala.collection.mutable
import scala.io.Source
import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import com.yammer.metrics.core.{Gauge, Meter, Metric, MetricsRegistry}
import org.apache.kafka.common.MetricName
import org.apache.kafka.common.metrics.{KafkaMetric, Measurable, MetricConfig, Metrics}
import org.apache.kafka.common.utils.Time
import org.apache.kafka.server.metrics.KafkaYammerMetrics
import org.mockito.Mockito.{mock, when}

object ToldMetrics {
  /** Those of the latest brokers by their numbers. */
  private val all = mutable.Map.empty[Int, ToldMetrics]
  private val UncleanElections = new com.yammer.metrics.core.MetricName("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec")

  /** Has the registry of this process tell what the brokers, of which one is the controller, have counted together. */
  private def tellUncleanElections(): Unit = {
    val meter = mock(classOf[Meter])
    when(meter.count).thenAnswer(_ => all.values.map(_.uncleanElections).sum)
    val add = classOf[MetricsRegistry].getDeclaredMethod("getOrAdd", UncleanElections.getClass, classOf[Metric])
    add.setAccessible(true)
    KafkaYammerMetrics.defaultRegistry.removeMetric(UncleanElections)
    add.invoke(KafkaYammerMetrics.defaultRegistry, UncleanElections, meter)
  }
}

/**
 * What the broker's `metrics.port` tells of quotas, of the copying of replicas, of authentication and of unclean elections,
 * by the names that Kafka's tests look up.
 */
class ToldMetrics(brokerId: Int, port: Int) extends Metrics {
  ToldMetrics.all(brokerId) = this
  ToldMetrics.tellUncleanElections()

  private val Authentication = "kafka_server_socket_server_metrics_"
  private val Killed = new com.yammer.metrics.core.MetricName("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount")
  private var began = 0L
  private var lines: Seq[String] = Nil

  KafkaYammerMetrics.defaultRegistry.removeMetric(Killed)
  KafkaYammerMetrics.defaultRegistry.newGauge(Killed, new Gauge[Double] {
    override def value: Double = ofLine(page().find(_.startsWith("kafka_network_socketserver_expiredconnectionskilledcount ")).get)
  })

  override def metric(name: MetricName): KafkaMetric = metrics.get(name)

  override def metrics: util.Map[MetricName, KafkaMetric] = new util.HashMap[MetricName, KafkaMetric](super.metrics) {
    override def get(name: Any): KafkaMetric = told(name.asInstanceOf[MetricName]).getOrElse(super.get(name))
    override def keySet: util.Set[MetricName] = (super.keySet.asScala ++ authentication().map(_.metricName)).asJava
    override def values: util.Collection[KafkaMetric] = (super.values.asScala ++ authentication()).asJavaCollection
  }

  private def told(name: MetricName): Option[KafkaMetric] = start(name).flatMap { start =>
    page().find(_.startsWith(start)).map(ofLine).filter(_ > 0).map(metric(name, _))
  }

  /** The beginning of the line that tells it, if the page may have one. */
  private def start(name: MetricName): Option[String] = {
    val inLine = name.name.replace('-', '_')
    Option(name.tags.get("client-id")) match {
      case Some(clientId) => Some(s"""kafka_server_quota_$inLine{resource="${name.group}",user="${name.tags.get("user")}",clientId="$clientId"} """)
      case None if name.group.endsWith("Replication") => Some(s"kafka_server_${name.group.toLowerCase}_$inLine ")
      case None => None
    }
  }

  private def authentication(): Seq[KafkaMetric] = page().filter(_.startsWith(Authentication)).map { line =>
    val name = line.stripPrefix(Authentication).takeWhile(_ != '{').replace('_', '-')
    val listener = line.split("listener=\"").last.takeWhile(_ != '"')
    metric(new MetricName(name, "socket-server-metrics", "", util.Map.of("listener", listener)), ofLine(line))
  }

  private def uncleanElections: Long =
    Try(page()).getOrElse(Nil).find(_.startsWith("kafka_controller_controllerstats_uncleanleaderelections_total ")).fold(0L)(ofLine(_).toLong)

  private def ofLine(line: String): Double = line.drop(line.lastIndexOf(' ') + 1).toDouble

  private def metric(name: MetricName, value: Double): KafkaMetric = {
    val same: Measurable = (_, _) => value
    new KafkaMetric(new Object, name, same, new MetricConfig, Time.SYSTEM)
  }

  /** The broker lets few read at once: one reads for all who have asked before. */
  private def page(): Seq[String] = {
    val asked = System.nanoTime
    synchronized {
      if (began < asked) {
        began = System.nanoTime
        lines = Using.resource(Source.fromURL(new URL(s"http://127.0.0.1:$port/metrics")))(_.getLines().toList)
      }
      lines
    }
  }
}
